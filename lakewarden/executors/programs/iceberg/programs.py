"""The program of each table service for Iceberg's tables."""

from __future__ import annotations

from lakewarden.executors.contract import FormatPrograms
from lakewarden.executors.programs.iceberg.archive import Archive
from lakewarden.executors.programs.iceberg.clean import Clean
from lakewarden.executors.programs.iceberg.client.opened import CATALOGS
from lakewarden.executors.programs.iceberg.clustering import Clustering
from lakewarden.executors.programs.iceberg.compaction import Compaction
from lakewarden.executors.programs.iceberg.orphans import Orphans
from lakewarden.executors.programs.iceberg.table_stats import TableStats
from lakewarden.planners.model.instant import Service

ICEBERG = FormatPrograms(
    programs={
        Service.ARCHIVE: Archive,
        Service.CLEAN: Clean,
        Service.CLUSTERING: Clustering,
        Service.COMPACTION: Compaction,
        Service.ORPHANS: Orphans,
        Service.TABLE_STATS: TableStats,
    },
    release=CATALOGS.close_all,
)
