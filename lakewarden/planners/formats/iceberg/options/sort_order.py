"""A sort order as people write it: `day DESC NULLS LAST, id`."""

from __future__ import annotations

import re
from typing import NamedTuple

_COLUMN = re.compile(r"(`[^`]+`|[\w.]+)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?", re.IGNORECASE)


class SortedBy(NamedTuple):
    """One column of an order. By default rows ascend, and nulls count as smaller than all other values."""

    column: str
    descending: bool
    nulls_last: bool


def parse_sort_order(text: str) -> tuple[SortedBy, ...]:
    """Return the columns of an order, the most significant first. Raises ValueError that names the wrong part."""
    return tuple(map(_sorted_by, text.split(",")))


def _sorted_by(text: str) -> SortedBy:
    found = _COLUMN.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"{text.strip()!r} is no column with its order: write it as in `day DESC NULLS LAST, id`, without functions"
        )
    name, direction, nulls = found.groups()
    descending = (direction or "ASC").upper() == "DESC"
    nulls_last = descending if nulls is None else nulls.upper() == "LAST"
    return SortedBy(column=name.strip("`"), descending=descending, nulls_last=nulls_last)
