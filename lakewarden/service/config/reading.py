"""How tables are read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within


class ReadingSettings(Settings):
    """The processes in which tables' metadata is read. What ends one of them is the trouble of one table."""

    processes: Annotated[int, Within(1, 64)] = 2
    """Processes that read tables of local and mounted disks. Two more read tables that take long."""

    requests: Annotated[int, Within(1, 512)] = 64
    """Tables of object stores and catalogs that are asked for at a time, by one process of their own."""

    memory: Annotated[Size, Within("256MiB", "1TiB")] = Field(default="1GiB", validate_default=True)
    """The memory of one such process. A table whose metadata needs more is not looked after, and says so."""

    deadline: Annotated[Duration, Within("1s", "1h")] = Field(default="60s", validate_default=True)
    """A look that has not ended by then is given up, and its process is killed if it reads nothing else."""
