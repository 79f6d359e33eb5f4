"""The settings for reading tables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within


class ReadingSettings(Settings):
    """The processes that read the metadata of tables. If the reading of a table ends one of them, only that table
    fails.
    """

    processes: Annotated[int, Within(1, 64)] = 2
    """Processes that read tables of local and mounted disks. Two more read tables that take long."""

    requests: Annotated[int, Within(1, 512)] = 64
    """Tables of object stores and catalogs that are read at the same time. One process of their own reads them."""

    memory: Annotated[Size, Within("256MiB", "1TiB")] = Field(default="1GiB", validate_default=True)
    """The memory of one such process. If the metadata of a table needs more, the table is not served, and its status
    says so.
    """

    deadline: Annotated[Duration, Within("1s", "1h")] = Field(default="60s", validate_default=True)
    """An observation that has not ended by then is given up. Its process is killed if it reads nothing else."""
