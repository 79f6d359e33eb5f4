"""The program of each table service for Hudi's tables."""

from __future__ import annotations

from lakewarden.executors.contract import FormatPrograms
from lakewarden.executors.programs.hudi.archive import Archive
from lakewarden.executors.programs.hudi.catalog_sync import CatalogSync
from lakewarden.executors.programs.hudi.clean import Clean
from lakewarden.executors.programs.hudi.clustering import Clustering
from lakewarden.executors.programs.hudi.compaction import Compaction
from lakewarden.executors.programs.hudi.log_compaction import LogCompaction
from lakewarden.executors.programs.hudi.metadata_table import Indexing, MetadataRebuild, MetadataValidation
from lakewarden.executors.programs.hudi.rollback import Rollback
from lakewarden.executors.programs.hudi.savepoint import Savepointing
from lakewarden.executors.programs.hudi.ttl import Ttl
from lakewarden.planners.model.instant import Service

HUDI = FormatPrograms(
    programs={
        Service.ARCHIVE: Archive,
        Service.CLEAN: Clean,
        Service.CLUSTERING: Clustering,
        Service.COMPACTION: Compaction,
        Service.LOG_COMPACTION: LogCompaction,
        Service.ROLLBACK: Rollback,
        Service.TTL: Ttl,
        Service.INDEXING: Indexing,
        Service.SAVEPOINT: Savepointing,
        Service.CATALOG_SYNC: CatalogSync,
        Service.METADATA_VALIDATION: MetadataValidation,
        Service.METADATA_REBUILD: MetadataRebuild,
    },
)
