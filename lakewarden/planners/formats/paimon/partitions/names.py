"""What a partition is called: by its values, by its folder, and by the texts that Paimon's client takes. Pure.

Source: `org.apache.paimon.utils.PartitionPathUtils` and `InternalRowPartitionComputer` of Paimon 1.3.1. With
`partition.legacy-name`, as by default, a value is written as Java writes the number or text that it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from lakewarden.planners.formats.paimon.metadata.rows import exact_values
from lakewarden.planners.formats.paimon.metadata.schemas import Schema

_ESCAPED = frozenset((*map(chr, range(0x20)), *"\"#%'*/:=?\\\x7f{[]^}"))
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionName:
    """The names of one partition. `values` are texts that Paimon's client reads as the values of the columns; a date is
    written as `2026-01-31`. `folder` is the path below the table's folder.
    """

    values: Mapping[str, str]
    folder: str


def name_of(row: bytes, schema: Schema) -> PartitionName | None:
    """Return what a partition is called. None if it has an empty value, or one of a type that is not read here."""
    keys, types, options = schema.partition_keys, schema.partition_types, schema.options.partitions
    try:
        values = exact_values(row, types)
    except ValueError:
        return None
    if not keys or any(one is None or not one.strip() or one == options.default_name for one in values):
        return None
    texts = [str(one) for one in values]
    stored = [
        str((date.fromisoformat(text) - _EPOCH).days) if kind == "DATE" and options.legacy_names else text
        for text, kind in zip(texts, types, strict=True)
    ]
    levels = (f"{escaped(key)}={escaped(text)}" for key, text in zip(keys, stored, strict=True))
    return PartitionName(values=dict(zip(keys, texts, strict=True)), folder="/".join(levels))


def escaped(text: str) -> str:
    """Return a text as it stands in the name of a folder."""
    return "".join(f"%{ord(one):02X}" if one in _ESCAPED else one for one in text)
