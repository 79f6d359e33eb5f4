"""The settings of the catalogs that Hudi tables are found in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from lakewarden.planners.formats.hudi.catalogs.pattern import PathPattern
from lakewarden.planners.metastores import URIS
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.locations import spelled_location


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


class HiveCatalog(Settings):
    """`type: hive`: the Hudi tables of a Hive metastore, named `<database>.<table>`. The views `_ro` and `_rt` of one
    table are that table. It needs `pip install 'lakewarden[hive]'`.
    """

    type: Literal["hive"]

    uri: str = Field(pattern=URIS)
    """The metastore, `thrift://host:9083`, with commas between several: the first that answers is asked. Kerberos and
    TLS are not spoken."""

    databases: tuple[str, ...] = ("*",)
    """Patterns of the databases that are listed, with `*` and `?` (all by default)."""

    below: tuple[str, ...] = ()
    """Places, as `s3://lake`: a table that is below none of them is refused. People who may create tables in the
    metastore say where those are, so name places where tables are acted on. By default tables may be anywhere."""

    timeout: Annotated[Duration, Within("100ms", "10m")] = Field(default="10s", validate_default=True)
    """A request that is not answered by then has failed."""

    @field_validator("below")
    @classmethod
    def _places(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            try:
                spelled_location(text)
            except PermanentError as wrong:
                raise ValueError(str(wrong)) from wrong
        return value


Catalog = Annotated[PathsCatalog | HiveCatalog, Field(discriminator="type")]
