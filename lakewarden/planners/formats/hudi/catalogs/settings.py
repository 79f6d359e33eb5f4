"""The settings of the catalogs that Hudi tables are found in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import field_validator

from lakewarden.planners.formats.hudi.catalogs.pattern import PathPattern
from lakewarden.planners.settings import Settings, Within


class PathsCatalog(Settings):
    """`type: paths`: the tables in the folders that fit a pattern. A table's name is its path below the part of the
    pattern that has no wildcard, with dots: `s3://lake/*/hudi_*` finds `sales.hudi_orders`.
    """

    type: Literal["paths"]

    path: str
    """The pattern. `*` and `?` stand for what is in one name, `**` for any number of folders. Folders whose names begin
    with `.` or `_` are found by such a beginning alone, and `**` goes into no folder of a partition (`day=...`)."""

    exclude: tuple[str, ...] = ()
    """Patterns of folders, as `path` is one, that are not looked into, and nothing below them."""

    max_depth: Annotated[int, Within(1, 64)] = 8
    """So many folders below the part without wildcards are gone into at most: it bounds `**`."""

    max_requests: Annotated[int, Within(1, 10_000_000)] = 100_000
    """So many requests are made at most each time: one for each folder that may be a table, one for each that is
    listed. Where more would be needed, that is told, and no table is forgotten."""

    @field_validator("path")
    @classmethod
    def _a_pattern(cls, value: str) -> str:
        PathPattern.of(value)
        return value

    @field_validator("exclude")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            PathPattern.of(text)
        return value


Catalog = PathsCatalog
