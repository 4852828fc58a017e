"""The names of rules of thumb: `rules_of_thumb.py` has the rules themselves."""

from postgrad.errors import SettingError

RULE_NAMES = ("saa", "normal", "last-value")


def rule_and_window(name: str) -> tuple[str, int | None]:
    """The name of a rule, and how many of the last demands it uses; `saa-60` uses sixty.

    Returns:
        The name without the window, and the window; None if the rule uses all demands.

    Raises:
        SettingError: If there is no rule of that name.
    """
    if name in RULE_NAMES:
        return name, None
    stem, _, window = name.rpartition("-")
    if stem in RULE_NAMES and window.isascii() and window.isdigit() and int(window) > 0:
        return stem, int(window)
    known = f"{', '.join(RULE_NAMES)}, or one of these with a window as in saa-60"
    raise SettingError(f"rules must be among {known}, got {name!r}")
