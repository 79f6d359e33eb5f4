"""Names of a table in the values of settings that hold for many tables: `lock_key: "{namespace}/{table}"`. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakewarden.planners.model.table import TableId
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog
from lakewarden.service.config.layers.patches import Patch
from lakewarden.service.config.problems import KeyPath
from lakewarden.service.config.settings import TABLE_ID

# The hash of a table's path by which Hudi's implicit lock providers name the lock of the table. Pure.
#
# Sources, all of Hudi 1.2.0: `ZookeeperBasedImplicitBasePathLockProvider` (the node is `/tmp/<hash>`, its lock is
# called `lock_key`), `DynamoDBBasedImplicitPartitionKeyLockProvider` (the partition key is the hash), `HashID` (XXH64
# with a seed, in hexadecimal digits). Both take `s3a://` for `s3://`. XXH64 is defined in the specification of xxHash.

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


NAMES = ("id", "table", "namespace", "location", "path_hash")
"""The names that may stand in braces. There are no others."""

_TEMPLATE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_IN = ("options", "contact", "labels")
"""The settings of a table, and of each of its services, in which names are filled in."""


def names_of(table: TableId | str, location: str, identifier: str | None = None) -> Mapping[str, str]:
    """Return the names of a table. `identifier` is its name in a catalog, with dots.

    Without it, the last name of the location is the name of the table, and the names above it are its namespace.
    `path_hash` is the name that Hudi's implicit lock providers give to the lock of the table.
    """
    if identifier is None:
        identifier = named_in_catalog(location)[1] if is_in_catalog(location) else dotted(location)
    namespace, _, name = identifier.rpartition(".")
    hashed = path_hash(location)
    return {"id": table, "table": name, "namespace": namespace, "location": location, "path_hash": hashed}


def dotted(location: str) -> str:
    """Return a location as a name with dots: `s3://lake/sales/orders` is `lake.sales.orders`.

    It depends on the location alone, so it never changes. A port, a container's account and the host of HDFS are left
    out.
    """
    if is_in_catalog(location):
        return ".".join(named_in_catalog(location))
    scheme, separator, rest = location.rpartition("://")
    host, _, path = rest.partition("/") if separator else ("", "", rest)
    names = [] if scheme == "hdfs" else [re.split(r"[@:]", host)[0]]
    return ".".join(name for name in (*names, *path.split("/")) if name)


def legal_id(name: str) -> TableId:
    """Return the id for a name with dots: the name itself, or a legal one that is made of it.

    A character that no id has becomes `_`. Then eight digits of the SHA-256 of the name follow, so that two names stay
    two ids. It depends on the name alone: `lake.ü` is always the same id.
    """
    if re.fullmatch(TABLE_ID, name) is not None:
        return TableId(name)
    digits = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return TableId(f"{_legal(name)[:_LONGEST_LEGAL]}-{digits}")


def legal_beginning(names: str) -> str:
    """Return how the ids of all tables below these names begin, up to a dot."""
    made = _legal(names)
    return made if len(made) < _LONGEST_LEGAL else made[:_LONGEST_LEGAL].rpartition(".")[0]


_LONGEST_LEGAL = 190


def _legal(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]|^[.-]", "_", name)


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with the names of a table in place of their braces."""
    match value:
        case str():
            return _TEMPLATE.sub(lambda match: names.get(match[1], match[0]), value)
        case Mapping():
            return {key: filled(part, names) for key, part in value.items()}
        case list() | tuple():
            return [filled(part, names) for part in value]
        case _:
            return value


def templates_in(patch: Patch, at: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield each name in braces, with its key, where names are filled in."""
    for key, below in (patch.parts or {}).items():
        here = (*at, key)
        if key in _IN:
            yield from _words(below, here)
        elif here == ("services",):
            for service, policy in (below.parts or {}).items():
                options = (policy.parts or {}).get("options")
                if options is not None:
                    yield from _words(options, (*here, service, "options"))


def with_names(care: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a table, as a document has them, with its names filled in."""
    made = {key: filled(value, names) if key in _IN else value for key, value in care.items()}
    if isinstance(services := made.get("services"), Mapping):
        made["services"] = {
            service: {key: filled(value, names) if key == "options" else value for key, value in policy.items()}
            if isinstance(policy, Mapping)
            else policy
            for service, policy in services.items()
        }
    return made


def _words(patch: Patch, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for key, below in (patch.parts or {}).items():
        yield from _words(below, (*at, key))
    for text in _texts(patch.value):
        yield from ((at, name) for name in _TEMPLATE.findall(text))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for part in value.values():
                yield from _texts(part)
        case list() | tuple():
            for part in value:
                yield from _texts(part)
