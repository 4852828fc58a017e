"""Where compiled programs are kept: a folder of the user's own, one for each kind of machine.

Whoever can write to the folder decides what code is run. So the folder belongs to the user, nobody
else may write to it, and a folder of which that is not true is not used.
"""

import hashlib
import os
import platform
import stat
from importlib import metadata
from pathlib import Path

from postgrad.errors import SettingError

# What `POSTGRAD_CACHE` says where it names no folder.
OFF, ON = ("", "0", "off", "no", "false"), ("1", "on", "yes", "true")
# What a program depends on besides what JAX puts into its key.
_PACKAGES = ("jax", "jaxlib")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def default_folder() -> Path:
    """The folder in the user's cache folder."""
    import platformdirs

    return platformdirs.user_cache_path("postgrad", appauthor=False) / "programs"


def own_folder(folder: Path) -> Path:
    """The folder of this processor and this version of JAX, made if it is not there.

    Args:
        folder: Where the folders of all processors and versions are.

    Raises:
        SettingError: If others could change what is in it.
        OSError: If it is not there and cannot be made.
    """
    folder = folder.expanduser().absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):
        _check_parent(folder)
    own = folder / _machine()
    own.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid"):
        found = own.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise SettingError(f"programs are not kept in {own}: the folder is not your own")
        if stat.S_IMODE(found.st_mode) != 0o700:
            own.chmod(0o700)
    return own


def _check_parent(folder: Path) -> None:
    found = folder.stat()
    wrong = None
    if found.st_uid not in (os.getuid(), 0):
        wrong = "it belongs to another user"
    elif found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        wrong = "others can write to it"
    if wrong:
        raise SettingError(
            f"programs are not kept in {folder}: {wrong}, and what is kept is run as code; choose "
            f"a folder of your own"
        )


def _machine() -> str:
    """A name for what a program is compiled for and by."""
    said = [platform.system(), platform.machine(), platform.processor(), *_processor()]
    said += [f"{name} {metadata.version(name)}" for name in _PACKAGES]
    version = metadata.version("jaxlib")
    return f"jaxlib-{version}-{hashlib.blake2b(repr(said).encode(), digest_size=8).hexdigest()}"


def _processor() -> list[str]:
    """The model and the instructions of the processor, where the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    first = lines[: lines.index("")] if "" in lines else lines
    told = ("vendor_id", "model name", "flags", "Features", "CPU part", "CPU implementer")
    return [line for line in first if line.startswith(told)]
