"""What is asked of one run of the suite."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.executors.demo.hudi_options import TableType
from live.policies import WriterKind

EACH_SUCCEEDS = 3
"""How often every service has to succeed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """The table's type, its writer, the least commits, when to give up; `only` are the services, None for all."""

    kind: TableType
    writer: WriterKind
    commits: int
    minutes: float
    only: frozenset[str] | None = None
