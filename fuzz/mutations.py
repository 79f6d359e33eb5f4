"""How one input becomes another. The mutations do not know the format, except for some fragments of formats."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

LARGEST = 64 * 2**10

_CHUNKS = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"-1", b"1e400", b"NaN", b"\\u0000", b"\\ud800", b"\\",
    b"\n", b"=", b"#", b"..", b"/", b"../../etc", b"file:/", b"s3://b/", b"http://h/", b"\0", b"\x00\x00", b"\x01",
    b"\x02",
    b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"9" * 19, b"9" * 400, b"9" * 5000, b"-9223372036854775808", b"253402300800000", b"Obj\x01", b"\x1f\x8b",
    b'"type":"record"', b'"type":"array","items":"null"', b'"null"', b'"long"', b'"string"', b"deflate", b"snappy",
    b"zstandard", b"bzip2", b"xz", b"\xed\xa0\x80", b"\xc2\x85", b"\x1b[2J",
)  # fmt: skip


def mutated(corpus: Sequence[bytes], chance: Random) -> bytes:
    """Return an input that is made from one or two inputs of the corpus, by one to eight changes."""
    found = bytearray(chance.choice(corpus))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        chance.choice(_CHANGES)(found, corpus, chance)
    return bytes(found[:LARGEST])


def _flip(found: bytearray, _corpus: Sequence[bytes], chance: Random) -> None:
    if found:
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)


def _overwrite(found: bytearray, _corpus: Sequence[bytes], chance: Random) -> None:
    if found:
        at = chance.randrange(len(found))
        chunk = chance.choice(_CHUNKS) if chance.random() < 0.5 else chance.randbytes(chance.randint(1, 4))
        found[at : at + len(chunk)] = chunk


def _insert(found: bytearray, _corpus: Sequence[bytes], chance: Random) -> None:
    at = chance.randint(0, len(found))
    found[at:at] = chance.choice(_CHUNKS) * chance.choice((1, 1, 1, 2, 100))


def _remove(found: bytearray, _corpus: Sequence[bytes], chance: Random) -> None:
    at, end = _span(found, chance)
    del found[at:end]


def _repeat(found: bytearray, _corpus: Sequence[bytes], chance: Random) -> None:
    at, end = _span(found, chance)
    found[end:end] = bytes(found[at:end]) * chance.choice((1, 2, 50))


def _cut(found: bytearray, _corpus: Sequence[bytes], chance: Random) -> None:
    del found[chance.randint(0, len(found)) :]


def _splice(found: bytearray, corpus: Sequence[bytes], chance: Random) -> None:
    other = chance.choice(corpus)
    at, end = _span(bytearray(other), chance)
    into = chance.randint(0, len(found))
    found[into:into] = other[at:end]


def _number(found: bytearray, _corpus: Sequence[bytes], chance: Random) -> None:
    """Change a number that is written in digits."""
    digits = [at for at, byte in enumerate(found) if 0x30 <= byte <= 0x39]
    if digits:
        at = chance.choice(digits)
        found[at : at + 1] = chance.choice((b"-1", b"0", b"9" * 19, b"9" * 400, b"1e400", b'"x"', b"null", b"[]"))


def _span(found: bytearray, chance: Random) -> tuple[int, int]:
    at = chance.randint(0, len(found))
    return at, min(len(found), at + chance.choice((1, 2, 8, 64, 1024)))


_CHANGES = (_flip, _flip, _overwrite, _overwrite, _insert, _remove, _repeat, _cut, _splice, _number)
