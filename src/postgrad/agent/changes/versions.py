"""What computes the stages: versions and the processor, of which the last bits depend."""

import functools
import platform
from importlib import metadata
from pathlib import Path

import jax

_PACKAGES = ("postgrad", "jax", "jaxlib")


@functools.cache
def versions_now() -> dict[str, str]:
    """The versions of postgrad, JAX and jaxlib, and the processor, of this process."""
    return {**{name: _version(name) for name in _PACKAGES}, "processor": _processor()}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # imported from its sources, and not installed
        return "not installed"


def _processor() -> str:
    device = jax.devices()[0]
    if device.platform != "cpu":
        return device.device_kind
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return " ".join([platform.machine(), *(named[:1] or [platform.processor()])]).strip()


def told_apart(was: dict[str, str], now: dict[str, str]) -> str:
    """In which versions two processes differ, in words."""
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return ", ".join(f"{name} {was.get(name, 'unknown')}, now {now.get(name)}" for name in names)
