"""Whether compiled programs are kept on disk: `pg.cache`, and the variable `POSTGRAD_CACHE`.

JAX looks up and stores compiled programs through an object with `get` and `put`. Its own does not
replace a damaged file, writes in place, and needs another package to bound the size; so postgrad
hands JAX an object of its own. What is kept, and under which key, is JAX's decision.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import jax

from postgrad.errors import SettingError
from postgrad.numerics.program_cache.files import ProgramFiles
from postgrad.numerics.program_cache.folder import OFF, ON, default_folder, own_folder

VARIABLE = "POSTGRAD_CACHE"
_MEGABYTE = 1 << 20
_in_use: list[ProgramFiles] = []


def cache(folder: str | os.PathLike[str] | None = None, *, limit_mb: float = 512.0) -> Path | None:
    """Keeps compiled programs on disk from now on, so that later processes need not compile them.

    Nothing is kept unless this is called or the variable `POSTGRAD_CACHE` says so: a folder, or
    `on` for the default one. The command line keeps programs unless it is `off`. Call it before the
    first program is compiled. Of JAX's configuration the least time to compile, and the least size,
    of what is kept are set to none. If JAX keeps programs in a folder already, nothing is changed.

    What is kept is code, which later processes run. So the folder must be the user's own. It has a
    folder of its own for each processor and version of JAX, files that are damaged are removed, and
    several processes may share it. A folder that cannot be written to is read only.

    Args:
        folder: Where; in the user's cache folder, if not given.
        limit_mb: How much the files may take, in megabytes. Those that were not used for longest
            are removed.

    Returns:
        Where programs are kept; None if they are not, as the folder cannot be made.

    Raises:
        SettingError: If others could write to the folder, or the limit is not positive.
    """
    if not limit_mb > 0:
        raise SettingError(f"limit_mb must be positive, got {limit_mb!r}")
    if jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return Path(jax.config.jax_compilation_cache_dir)  # type: ignore[attr-defined]
    try:
        own = own_folder(default_folder() if folder is None else Path(folder))
    except OSError:
        return None
    try:
        _hand_over(ProgramFiles(own, int(limit_mb * _MEGABYTE)))
    except ImportError:  # a version of JAX that has no such object
        return None
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return own


def cache_as_told() -> None:
    """Keeps programs if `POSTGRAD_CACHE` says so; warns, if it names a folder that is not safe."""
    told = os.environ.get(VARIABLE, "")
    if told.lower() in OFF:
        return
    try:
        cache(None if told.lower() in ON else told)
    except SettingError as error:
        warnings.warn(f"{VARIABLE}: {error}", stacklevel=2)


def files_in_use() -> ProgramFiles | None:
    """Where programs are kept; None if they are not."""
    return _in_use[0] if _in_use else None


def _hand_over(files: ProgramFiles) -> None:
    """Makes JAX use the files."""
    from jax._src import compilation_cache
    from jax._src.compilation_cache_interface import CacheInterface

    class Programs(CacheInterface):
        """The files, as JAX expects them."""

        def __init__(self) -> None:
            self._path: Any = files.folder

        def get(self, key: str) -> bytes | None:
            """The program of a key."""
            return files.get(key)

        def put(self, key: str, value: bytes) -> None:
            """Keep the program of a key."""
            files.put(key, value)

    compilation_cache.reset_cache()
    compilation_cache._cache = Programs()
    compilation_cache._cache_initialized = True
    _in_use[:] = [files]
