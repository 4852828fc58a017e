"""What happens to the bytes of files: bits, sectors and pages that are damaged; for `damage.py`."""

import numpy as np

SECTOR, PAGE = 512, 4096


def damages(rng: np.random.Generator, data: bytes, suffix: str) -> tuple[str, bytes]:
    """A damaged copy of a file, and what was done to it."""
    kinds = ["bit", "bit", "byte", "zeros", "cut", "sectors"]
    if suffix != "-acknowledged":
        kinds += ["swap", "double", "page"]
    kind, new = str(rng.choice(kinds)), bytearray(data)
    filled = np.flatnonzero(np.frombuffer(data, np.uint8))
    spot = int(rng.choice(filled)) if rng.random() < 0.9 else int(rng.integers(len(data)))
    width, first = (PAGE, 0) if suffix == "" else (PAGE + 24, 32)
    pages = (len(data) - first) // width
    if kind == "bit":
        new[spot] ^= 1 << int(rng.integers(8))
    elif kind == "byte":
        new[spot] ^= int(rng.integers(1, 256))
    elif kind == "zeros":
        start = spot // SECTOR * SECTOR
        new[start : start + SECTOR] = bytes(len(new[start : start + SECTOR]))
    elif kind == "sectors":  # another sector in its place, as if written to the wrong one
        start, other = spot // SECTOR * SECTOR, int(rng.integers(len(data))) // SECTOR * SECTOR
        piece = data[other : other + len(new[start : start + SECTOR])]
        new[start : start + len(piece)] = piece
    elif kind == "cut":
        del new[int(rng.integers(len(data))) :]
    elif pages < 2:
        new[spot] ^= 0xFF
    else:
        one, two = (first + width * int(page) for page in rng.choice(pages, 2, replace=False))
        page_1, page_2 = data[one : one + width], data[two : two + width]
        if kind == "page":
            page_2 = rng.bytes(width)
        new[one : one + width] = page_2
        if kind == "swap":
            new[two : two + width] = page_1
    return f"{suffix or 'db'} {kind} at {spot}", bytes(new)
