"""How each table service is carried out on each format. Run inside a session worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.executors.contract import Program
from lakewarden.executors.programs.fake import FakeArchive, FakeClean, FakeClustering, FakeCompaction
from lakewarden.executors.programs.hudi.archive import Archive
from lakewarden.executors.programs.hudi.catalog_sync import CatalogSync
from lakewarden.executors.programs.hudi.clean import Clean
from lakewarden.executors.programs.hudi.clustering import Clustering
from lakewarden.executors.programs.hudi.compaction import Compaction
from lakewarden.executors.programs.hudi.indexing import Indexing
from lakewarden.executors.programs.hudi.log_compaction import LogCompaction
from lakewarden.executors.programs.hudi.metadata_rebuild import MetadataRebuild
from lakewarden.executors.programs.hudi.metadata_validation import MetadataValidation
from lakewarden.executors.programs.hudi.rollback import Rollback
from lakewarden.executors.programs.hudi.savepoint import Savepointing
from lakewarden.executors.programs.hudi.ttl import Ttl
from lakewarden.executors.programs.iceberg.archive import Archive as IcebergArchive
from lakewarden.executors.programs.iceberg.clean import Clean as IcebergClean
from lakewarden.executors.programs.iceberg.client.open_catalogs import CATALOGS
from lakewarden.executors.programs.iceberg.clustering import Clustering as IcebergClustering
from lakewarden.executors.programs.iceberg.compaction import Compaction as IcebergCompaction
from lakewarden.executors.programs.iceberg.orphans import Orphans as IcebergOrphans
from lakewarden.planners.model.instant import Service

PROGRAMS: Mapping[tuple[str, Service], Callable[[], Program]] = {
    ("fake", Service.ARCHIVE): FakeArchive,
    ("fake", Service.CLEAN): FakeClean,
    ("fake", Service.CLUSTERING): FakeClustering,
    ("fake", Service.COMPACTION): FakeCompaction,
    ("hudi", Service.ARCHIVE): Archive,
    ("hudi", Service.CLEAN): Clean,
    ("hudi", Service.CLUSTERING): Clustering,
    ("hudi", Service.COMPACTION): Compaction,
    ("hudi", Service.LOG_COMPACTION): LogCompaction,
    ("hudi", Service.ROLLBACK): Rollback,
    ("hudi", Service.TTL): Ttl,
    ("hudi", Service.INDEXING): Indexing,
    ("hudi", Service.SAVEPOINT): Savepointing,
    ("hudi", Service.CATALOG_SYNC): CatalogSync,
    ("hudi", Service.METADATA_VALIDATION): MetadataValidation,
    ("hudi", Service.METADATA_REBUILD): MetadataRebuild,
    ("iceberg", Service.ARCHIVE): IcebergArchive,
    ("iceberg", Service.CLEAN): IcebergClean,
    ("iceberg", Service.CLUSTERING): IcebergClustering,
    ("iceberg", Service.COMPACTION): IcebergCompaction,
    ("iceberg", Service.ORPHANS): IcebergOrphans,
}


def release() -> None:
    """Close what programs keep open from one run to the next, before their JVM ends."""
    CATALOGS.close_all()
