"""Tables that no identifier tells, because its dots part the levels of a namespace: those with a dot in a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakewarden.planners.ports import Listing

_WHY = "one of its names has a dot, by which Lakewarden parts them: rename the table, or its namespace"


def listing_of(tables: Iterable[Sequence[str]], *, unlisted: Mapping[str, str] | None = None) -> Listing:
    """Return the listing of these tables, each told by its levels; those that have a dot in one are refused."""
    found: list[str] = []
    refused: dict[str, str] = {}
    for levels in tables:
        if any("." in level for level in levels):
            refused["/".join(levels)] = _WHY
        else:
            found.append(".".join(levels))
    return Listing(tables=sorted(found), unlisted=unlisted or {}, refused=refused)
