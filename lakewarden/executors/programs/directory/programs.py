"""The program of each table service for directories."""

from __future__ import annotations

from lakewarden.executors.contract import FormatPrograms
from lakewarden.executors.programs.directory.compaction import Compaction
from lakewarden.executors.programs.directory.orphans import Orphans
from lakewarden.executors.programs.directory.partition_commit import PartitionCommit
from lakewarden.executors.programs.directory.ttl import Ttl
from lakewarden.planners.model.instant import Service

DIRECTORY = FormatPrograms(
    programs={
        Service.COMPACTION: Compaction,
        Service.ORPHANS: Orphans,
        Service.PARTITION_COMMIT: PartitionCommit,
        Service.TTL: Ttl,
    }
)
