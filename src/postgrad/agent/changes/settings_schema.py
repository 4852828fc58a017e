"""Settings in files have a schema of their own: its number, and how earlier ones are read.

Settings are what `settings_check.fingerprint` says about an agent. Schema 0 is what was written
before there were numbers.
"""

from typing import Any

from postgrad.errors import StoreError

SCHEMA = 1


def migrated(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Settings of any earlier schema, as the present one would have them.

    Args:
        old: The settings that were stored.
        new: What the agent is made of now: `structure` and `numbers`.

    Raises:
        StoreError: If the settings are of a later schema.
    """
    schema = old.get("schema", 0)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise StoreError(
            f"the settings of the stream have schema {schema!r}, and this postgrad reads schemas "
            f"up to {SCHEMA}; install a newer postgrad"
        )
    return _from_unnumbered(old, new) if schema < 1 else old


# What the default descent was, and what it is: where it was replaced, the search begins anew.
_REPLACED_DESCENTS = {("Newton", "Search")}
_DESCENT = "algorithm.descent"


# Parts of paths that were renamed, and a field that is no longer compared.
_RENAMED = (("['mean']", "['loc']"), (".evidence", ".kept"))
_GONE = ".prior.order"


def _renamed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What is said at each path, under the path's present name."""
    found = {}
    for path, said in old.items():
        now = path
        for was, name in _RENAMED:
            if path not in new and path.replace(was, name) in new:
                now = path.replace(was, name)
        if now in new or _GONE not in now:
            found[now] = said
    return found


def _from_unnumbered(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """From schema 0 to schema 1."""
    structure, numbers = (_renamed(old[part], new[part]) for part in ("structure", "numbers"))
    descents = (structure.get(_DESCENT), new["structure"].get(_DESCENT))
    if descents in _REPLACED_DESCENTS:
        for names in (structure, numbers):
            for path in [path for path in names if path.startswith(_DESCENT)]:
                del names[path]
            now = new["structure"] if names is structure else new["numbers"]
            names |= {path: value for path, value in now.items() if path.startswith(_DESCENT)}
    return {**old, "structure": structure, "numbers": numbers}
