"""The table as the core of Paimon opens it: by its folder, or through the catalog of its writers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from lakewarden.executors.programs.paimon.client.errors import on_the_way_out, translated
from lakewarden.planners.formats.paimon.catalogs.settings import (
    HiveCatalog,
    JdbcCatalog,
    commits_under_lock,
    core_options,
)
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.storage.locations import canonical_location, named_in_catalog


@contextlib.contextmanager
def java_table(session: Any, table: Table, folder: str) -> Iterator[Any]:
    """Yield the `FileStoreTable` with the newest schema. `table` is as it is registered, and lies in `folder`.

    If the writers commit under the lock of a catalog, the table is opened through that catalog, which has the lock.
    Raises TemporaryError if the core finds it elsewhere.
    """
    paimon = session.sparkContext._jvm.org.apache.paimon  # noqa: SLF001 - pyspark's own access to py4j
    settings = table.catalog
    if not isinstance(settings, HiveCatalog | JdbcCatalog) or not commits_under_lock(settings, folder):
        with translated(Step.PLAN):
            java = paimon.table.FileStoreTableFactory.create(paimon.fs.local.LocalFileIO(), paimon.fs.Path(folder))
        yield java
        return
    _, identifier = named_in_catalog(table.location)
    with translated(Step.PLAN):
        catalog = _catalog(session, paimon, settings)
    try:
        with translated(Step.PLAN):
            java = catalog.getTable(paimon.catalog.Identifier.create(*identifier.split(".")))
            place = canonical_location(str(java.location().toString()))
        if place != folder:
            raise TemporaryError(f"the catalog moves the table: it was in {folder}, and is in {place}")
        yield java
    finally:
        with on_the_way_out("close the catalog"):
            catalog.close()


def _catalog(session: Any, paimon: Any, settings: HiveCatalog | JdbcCatalog) -> Any:
    options = paimon.options.Options()
    for key, value in core_options(settings).items():
        options.set(key, value)
    context = session.sparkContext
    hadoop = context._jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())  # noqa: SLF001
    hadoop.set("fs.s3.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")  # a metastore may say s3:// for s3a://
    return paimon.catalog.CatalogFactory.createCatalog(paimon.catalog.CatalogContext.create(options, hadoop))
