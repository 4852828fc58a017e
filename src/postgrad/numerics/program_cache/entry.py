"""Under which key the outcome of a call is kept, where that depends on no numbers."""

import functools
import hashlib
import json
import os
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from postgrad.numerics.program_cache.keeping import files_in_use
from postgrad.numerics.program_cache.structure import PACKAGES, NoDescriptionError, described


class Entry:
    """The file of a call. Nothing is read or written unless programs are kept on disk."""

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        """Tells the call of a function of one of postgrad's modules from all others.

        Raises:
            NoDescriptionError: If that cannot be told from the structure of the arguments, as
                they have code of the user's own in them.
        """
        name = f"{function.__module__}:{function.__qualname__}"
        if not name.startswith("postgrad.") or "<locals>" in name:
            raise NoDescriptionError(name)
        call, self._files = described(arguments), files_in_use()
        self._key = "" if self._files is None else json.dumps([_surroundings(), name, call])

    def get(self) -> bytes | None:
        """What is kept; None if there is nothing."""
        return None if self._files is None else self._files.get(self._key)

    def put(self, content: bytes) -> None:
        """Keep what came of the call."""
        if self._files is not None:
            self._files.put(self._key, content)


def _surroundings() -> list[Any]:
    """What lowering depends on besides the function and its arguments."""
    configuration = {name: repr(value) for name, value in sorted(jax.config.values.items())}
    return [_packages(), jax.default_backend(), configuration]


@functools.cache
def _packages() -> list[str]:
    """The versions of packages, and what tells one state of postgrad's sources from another."""
    others = [name for name in PACKAGES if name not in ("postgrad", "builtins")]
    versions = [f"{name} {metadata.version(name)}" for name in others]
    return [source_digest(Path(__file__).parents[2]), platform.python_version(), *versions]


def source_digest(root: Path) -> str:
    """A digest of all Python files below a folder.

    Raises:
        NoDescriptionError: If there are none, as in an archive.
    """
    paths = sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".py")
    )
    if not paths:
        raise NoDescriptionError(f"no sources in {root}")
    digest = hashlib.blake2b(digest_size=20)
    for path in paths:
        content = Path(path).read_bytes()
        digest.update(f"{os.path.relpath(path, root)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
