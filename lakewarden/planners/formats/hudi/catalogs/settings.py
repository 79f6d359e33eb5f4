"""The settings of the catalogs in which Hudi tables are found."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from lakewarden.planners.metastores import URIS
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.path_pattern import PathPattern
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.locations import spelled_location


class PathsCatalog(Settings):
    """`type: paths`: the tables in the folders that fit a pattern. A table's name is its path below the part of the
    pattern that has no wildcard, with dots: `s3://lake/*/hudi_*` finds `sales.hudi_orders`.
    """

    type: Literal["paths"]

    path: str
    """The pattern. `*` and `?` match within one name, `**` matches any number of folders. A folder with a name that
    begins with `.` or `_` fits only a pattern that begins so. `**` enters no folder of a partition (`day=...`)."""

    exclude: tuple[str, ...] = ()
    """Patterns of folders, written like `path`. These folders are not searched, nor anything below them."""

    max_depth: Annotated[int, Within(1, 64)] = 8
    """The most levels of folders that are searched below the part without wildcards. It bounds `**`."""

    max_requests: Annotated[int, Within(1, 10_000_000)] = 100_000
    """The most requests each time: one for each folder that may be a table, one for each that is listed. If more are
    needed, that is reported, and no table is forgotten."""

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
    """The metastore, `thrift://host:9083`, with commas between several. The first that answers is used. Kerberos and
    TLS are not supported."""

    databases: tuple[str, ...] = ("*",)
    """Patterns of the databases that are listed, with `*` and `?` (all by default)."""

    below: tuple[str, ...] = ()
    """Places such as `s3://lake`. A table that is below none of them is refused. People who may create tables in the
    metastore choose the locations. So set this if Lakewarden acts on the tables. By default tables may be anywhere."""

    timeout: Annotated[Duration, Within("100ms", "10m")] = Field(default="10s", validate_default=True)
    """A request without an answer by then has failed."""

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
