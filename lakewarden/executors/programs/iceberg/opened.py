"""A table that is opened for one run: Iceberg's own object to act on it, and our own reader to see what is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from lakewarden.executors.contract import Assignment, Step
from lakewarden.executors.programs.iceberg.errors import translated
from lakewarden.planners.formats.iceberg.catalogs import Catalog
from lakewarden.planners.formats.iceberg.files import read_table
from lakewarden.planners.formats.iceberg.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.spark_catalogs import spark_conf
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.locations import named_in_catalog

_CATALOG: TypeAdapter[Catalog] = TypeAdapter(Catalog)
_CATALOG_KEY = "spark.sql.catalog."


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTable:
    """What every program works with. `spark` is the run's own session, `java` an `org.apache.iceberg.Table`."""

    spark: Any
    java: Any
    assignment: Assignment
    options: IcebergTableOptions
    storage: Storage
    clock: Clock

    @property
    def jvm(self) -> Any:
        """Return py4j's view of the JVM."""
        return self.spark.sparkContext._jvm  # noqa: SLF001 - pyspark's own door to py4j

    @property
    def actions(self) -> Any:
        """Return Iceberg's own actions, in the run's session (`org.apache.iceberg.spark.actions.SparkActions`)."""
        session = self.spark._jsparkSession  # noqa: SLF001 - pyspark's own door to py4j
        return self.jvm.org.apache.iceberg.spark.actions.SparkActions.get(session)

    def refreshed(self) -> str:
        """Ask the catalog for the table as it is now, and return its metadata file; `java` is at that version."""
        with translated(Step.PLAN):
            self.java.refresh()
            return str(self.java.operations().current().metadataFileLocation())

    def metadata(self) -> TableMetadata:
        """Return the table as it is now: the catalog is asked, and our own reader reads what it names.

        `java` is at the same version. Raises TemporaryError or PermanentError; nothing is changed by it.
        """
        return read_table(self.refreshed(), self.storage)

    def java_map(self, entries: dict[str, str]) -> Any:
        """Return a `java.util.Map` of texts."""
        made = self.jvm.java.util.HashMap()
        for key, value in entries.items():
            made.put(key, value)
        return made


@contextlib.contextmanager
def open_table(session: Any, assignment: Assignment, storage: Storage, *, clock: Clock) -> Iterator[OpenTable]:
    """Open the table of a run, in its own session: what is set there is seen by no other run, and ends with it.

    Raises PermanentError where the catalog has no such table or one of its secrets is missing.
    """
    options = IcebergTableOptions.model_validate(dict(assignment.table_options))
    with translated(Step.PLAN):
        java = _from_catalog(session, assignment) if assignment.catalog is not None else _by_path(session, assignment)
    yield OpenTable(spark=session, java=java, assignment=assignment, options=options, storage=storage, clock=clock)


def _from_catalog(session: Any, assignment: Assignment) -> Any:
    """Load `catalog://<name>/<namespace>.<table>`. A database's catalog may have another name in Spark: its rows are
    keyed by it.
    """
    name, identifier = named_in_catalog(assignment.location)
    conf = spark_conf(name, _CATALOG.validate_python(dict(assignment.catalog or {})))
    for key, value in conf.items():
        session.conf.set(key, value)
    (name,) = {key.removeprefix(_CATALOG_KEY).split(".")[0] for key in conf if key.startswith(_CATALOG_KEY)}
    quoted = ".".join(f"`{part}`" for part in (name, *identifier.split(".")))
    load = session.sparkContext._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable  # noqa: SLF001
    return load(session._jsparkSession, quoted)  # noqa: SLF001 - pyspark's own door to py4j


def _by_path(session: Any, assignment: Assignment) -> Any:
    configuration = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - pyspark's own door to py4j
    hadoop_tables = session.sparkContext._jvm.org.apache.iceberg.hadoop.HadoopTables  # noqa: SLF001
    return hadoop_tables(configuration).load(assignment.location)
