"""The rows on a page of a table, read without SQLite."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from postgrad.store.checksum import Field
from postgrad.store.recovery.pages import Pages

_LEAF = 0x0D  # a page with the rows of a table
# The longest row, in bytes: a damaged length must not fill the memory.
_LONGEST = 1 << 30
_WIDTHS = (0, 1, 2, 3, 4, 6, 8)  # of whole numbers, by their type
# What comes of damaged lengths, texts and numbers.
_DAMAGED = (IndexError, ValueError, struct.error, OverflowError)


class Place(NamedTuple):
    """Where a row is: the number of its page, and where it begins there."""

    page: int
    start: int


def rows(pages: Pages, number: int) -> Iterator[tuple[Place, int, list[Field]]]:
    """The place, the key and the values of each row on a page that can be read."""
    page, begins = pages.page(number), 100 if number == 1 else 0
    if len(page) != pages.size or page[begins] != _LEAF:
        return
    (count,) = struct.unpack_from(">H", page, begins + 3)
    count = min(count, (pages.size - begins - 8) // 2)
    for start in struct.unpack_from(f">{count}H", page, begins + 8):
        place = Place(number, start)
        if (found := row_at(pages, place)) is not None:
            yield place, *found


def row_at(pages: Pages, place: Place) -> tuple[int, list[Field]] | None:
    """The key and the values of a row; None if it cannot be read."""
    with suppress(*_DAMAGED):
        page = pages.page(place.page)
        length, start = _varint(page, place.start)
        key, start = _varint(page, start)
        key -= (key >> 63) << 64
        if length <= _LONGEST:
            return key, _values(_payload(pages, page, start, length))
    return None


def _payload(pages: Pages, page: bytes, start: int, length: int) -> bytes:
    """The bytes of a row; what does not fit its page is on a chain of others."""
    size = pages.size
    if length <= size - 35:
        return page[start : start + length]
    least = (size - 12) * 32 // 255 - 23
    local = least + (length - least) % (size - 4)
    local = local if local <= size - 35 else least
    parts, missing = [page[start : start + local]], length - local
    following = int.from_bytes(page[start + local : start + local + 4], "big")
    while missing > 0:
        more = pages.page(following)
        if not more:
            raise ValueError("the chain of pages ends too soon")
        parts.append(more[4 : 4 + min(missing, size - 4)])
        missing -= size - 4
        following = int.from_bytes(more[:4], "big")
    return b"".join(parts)


def _values(payload: bytes) -> list[Field]:
    ends, at = _varint(payload, 0)
    values: list[Field] = []
    start = ends
    while at < ends:
        kind, at = _varint(payload, at)
        value, start = _value(payload, kind, start)
        values.append(value)
    if start != len(payload):
        raise ValueError("the values do not fill the row")
    return values


def _value(payload: bytes, kind: int, start: int) -> tuple[Field, int]:
    """A value of a type, and where the next one begins."""
    if kind == 0:
        return None, start
    if kind <= 6:
        end = start + _WIDTHS[kind]
        return int.from_bytes(payload[start:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", payload, start)[0], start + 8
    if kind <= 9:
        return kind - 8, start
    end = start + (kind - 12) // 2
    if kind < 12 or end > len(payload):
        raise ValueError("no such type")
    data = payload[start:end]
    return (data.decode() if kind % 2 else data), end


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    number = 0
    for place in range(start, start + 8):
        number = number << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return number, place + 1
    return number << 8 | data[start + 8], start + 9
