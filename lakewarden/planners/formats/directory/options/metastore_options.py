"""Where a Hive metastore lists the partitions of a directory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.planners.metastores import URIS
from lakewarden.planners.settings import Duration, Settings, Within


class MetastoreOptions(Settings):
    """The table of a Hive metastore that lists the partitions of the directory. It needs
    `pip install 'lakewarden[hive]'`.
    """

    uri: str = Field(pattern=URIS)
    """The metastore, `thrift://host:9083`, with commas between several. The first that answers is used. Kerberos and
    TLS are not supported."""

    database: str = Field(min_length=1, max_length=256)
    """The database of the table there."""

    table: str = Field(min_length=1, max_length=256)
    """The name of the table there. Its location must be the directory."""

    timeout: Annotated[Duration, Within("100ms", "1m")] = Field(default="10s", validate_default=True)
    """A request fails if it is not answered within this time."""

    @property
    def place(self) -> str:
        """The table and its metastore, for messages."""
        return f"{self.database}.{self.table} at {self.uri}"
