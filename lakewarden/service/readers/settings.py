"""How tables are read."""

from __future__ import annotations

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size


class ReadingSettings(Settings):
    """The processes in which tables' metadata is read. What ends one of them is the trouble of one table."""

    processes: int = Field(default=2, ge=1, le=64)
    """Processes that read tables of local and mounted disks. Two more read tables that take long."""

    requests: int = Field(default=64, ge=1, le=512)
    """Tables of object stores and catalogs that are asked for at a time, by one process of their own."""

    memory: Size = Field(default="1GiB", validate_default=True, ge=2**28, le=2**40)
    """The memory of one such process. A table whose metadata needs more is not looked after, and says so."""

    deadline: Duration = Field(default="60s", validate_default=True)
    """A look that has not ended by then is given up, and its process is killed if it reads nothing else."""
