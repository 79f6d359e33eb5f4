"""The hash of a table's path by which Hudi's implicit lock providers name the lock of the table. Pure.

Sources, all of Hudi 1.2.0: `ZookeeperBasedImplicitBasePathLockProvider` (the node is `/tmp/<hash>`, its lock is called
`lock_key`), `DynamoDBBasedImplicitPartitionKeyLockProvider` (the partition key is the hash), `HashID` (XXH64 with a
seed, in hexadecimal digits). Both take `s3a://` for `s3://`. XXH64 is defined in the specification of xxHash.
"""

from __future__ import annotations

_SEED = 0xFFFFFFFFDABADABA
"""`HashID.HASH_SEED`, which Java widens to 64 bits with its sign."""

_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE = 32


def path_hash(location: str) -> str:
    """Return the hash of the base path of a table, as 16 hexadecimal digits."""
    scheme, separator, rest = location.partition("://")
    spelled = f"s3://{rest}" if separator and scheme == "s3a" else location
    return f"{xxh64(spelled.encode(), _SEED):016X}"


def xxh64(content: bytes, seed: int) -> int:
    """Return XXH64 of some bytes."""
    striped = len(content) - len(content) % _STRIPE
    mixed = _of_stripes(content[:striped], seed) if striped else seed + _P5
    mixed = (mixed + len(content)) & _MASK
    at = striped
    while at + 8 <= len(content):
        mixed = (_left(mixed ^ _round(0, _number(content, at, 8)), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(content):
        mixed = (_left(mixed ^ (_number(content, at, 4) * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in content[at:]:
        mixed = _left(mixed ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    mixed = (mixed ^ mixed >> 33) * _P2 & _MASK
    mixed = (mixed ^ mixed >> 29) * _P3 & _MASK
    return mixed ^ mixed >> 32


def _of_stripes(content: bytes, seed: int) -> int:
    lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
    for at in range(0, len(content), _STRIPE):
        lanes = [_round(lane, _number(content, at + 8 * place, 8)) for place, lane in enumerate(lanes)]
    mixed = sum(_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        mixed = ((mixed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return mixed


def _round(lane: int, number: int) -> int:
    return _left((lane + number * _P2) & _MASK, 31) * _P1 & _MASK


def _left(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK


def _number(content: bytes, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")
