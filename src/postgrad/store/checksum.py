"""Checksums over several fields."""

from hashlib import blake2b

SIZE = 16

Field = bytes | str | int | float | None


def digest(*fields: Field) -> bytes:
    """A checksum of the fields, their types and their order."""
    # `ascii` is the same in every version of Python; `repr` follows Unicode's tables.
    plain = ascii(tuple((len(f),) if isinstance(f, bytes) else f for f in fields))
    total = blake2b(plain.encode(), digest_size=SIZE)
    for field in fields:
        if isinstance(field, bytes):
            total.update(field)
    return total.digest()
