"""The program of each table service for Paimon's tables."""

from __future__ import annotations

from lakewarden.executors.contract import FormatPrograms
from lakewarden.executors.programs.paimon.archive import Archive
from lakewarden.executors.programs.paimon.clean import Clean
from lakewarden.executors.programs.paimon.compaction import Compaction
from lakewarden.executors.programs.paimon.orphans import Orphans
from lakewarden.executors.programs.paimon.partition_commit import PartitionCommit
from lakewarden.executors.programs.paimon.ttl import Ttl
from lakewarden.planners.model.instant import Service

PAIMON = FormatPrograms(
    programs={
        Service.ARCHIVE: Archive,
        Service.CLEAN: Clean,
        Service.COMPACTION: Compaction,
        Service.ORPHANS: Orphans,
        Service.PARTITION_COMMIT: PartitionCommit,
        Service.TTL: Ttl,
    }
)
