"""A table that is opened for one run: Iceberg's own object changes it, and the daemon's reader reads it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import structlog
from pydantic import TypeAdapter

from lakewarden.executors.contract import Assignment, Program, Steps
from lakewarden.executors.programs.bracket import Bracket
from lakewarden.executors.programs.iceberg.client.errors import on_the_way_out, translated
from lakewarden.planners.formats.iceberg.backlog.blockers import folders_of
from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointers
from lakewarden.planners.formats.iceberg.catalogs.settings import (
    COMMITTING,
    OF_A_CLIENT,
    Catalog,
    without_locks,
)
from lakewarden.planners.formats.iceberg.catalogs.spark_catalogs import spark_conf
from lakewarden.planners.formats.iceberg.catalogs.vended.storage import VendedFiles
from lakewarden.planners.formats.iceberg.deletion.catalog_behind import require_newest
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.shared_folder import require_own_folder
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, PermanentError, YieldError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.locations import named_in_catalog

# The catalogs of a JVM. Each is opened once for its settings, lent to any number of runs, and closed here.
#
# Each session of Spark would open a catalog of its own and close none. Its connections would stay as long as the JVM. A
# database has only a limited number of connections, also for writers.
#
# Source: Iceberg 1.11, `spark.SparkCatalog` (how it opens one), `jdbc.JdbcClientPool` (a connection that could not be
# opened again stays in the pool, closed).

log = structlog.get_logger(__name__)

_HADOOP = "hadoop."


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkCatalogSettings:
    """The settings with which a catalog is opened: its name in the configuration, its name in Spark, and its
    properties, including secrets.
    """

    configured: str
    name: str
    properties: Mapping[str, str] = field(repr=False)


@dataclass(kw_only=True, slots=True, eq=False)
class LentCatalog:
    """One open catalog. `java` is an `org.apache.iceberg.catalog.Catalog`. `proved` says that it has loaded a table. If
    it is `superseded`, the last of its `users` closes it. `uuids` are those of its tables, and when each was read. That
    is None for a table that cannot be loaded.
    """

    settings: SparkCatalogSettings
    java: Any = None
    proved: bool = False
    users: int = 0
    superseded: bool = False
    opening: threading.Lock = field(default_factory=threading.Lock)
    uuids: dict[str, tuple[datetime, str | None]] = field(default_factory=dict)


class OpenCatalogs:
    """One open catalog for each catalog of the configuration, with its last settings. Any thread may use it.

    A catalog with old settings, for example after a secret has changed, or a broken one is not lent any more. The last
    run that gives it back closes it.
    """

    def __init__(self, close: Callable[[Any], None]) -> None:
        self._close = close
        self._lock = threading.Lock()
        self._open: dict[str, LentCatalog] = {}

    def take(self, settings: SparkCatalogSettings, make: Callable[[], Any]) -> LentCatalog:
        """Return the catalog with these settings. If it is not open, `make` opens it. Raises what `make` raises."""
        with self._lock:
            before = self._open.get(settings.configured)
            if before is not None and before.settings == settings:
                lent, idle = before, None
            else:
                lent, idle = LentCatalog(settings=settings), self._superseded(before)
                self._open[settings.configured] = lent
            lent.users += 1
        self._end(idle)
        try:
            with lent.opening:
                lent.java = make() if lent.java is None else lent.java
        except BaseException:
            self.give_back(lent, broken=True)
            raise
        return lent

    def give_back(self, lent: LentCatalog, *, broken: bool = False) -> None:
        """Take the catalog back from a run. `broken` says that the run may have failed because of it."""
        with self._lock:
            lent.users -= 1
            if broken and self._open.get(lent.settings.configured) is lent:
                del self._open[lent.settings.configured]
                lent.superseded = True
            idle = lent if lent.superseded and not lent.users else None
        self._end(idle)

    def close_all(self) -> None:
        """Close the catalogs that no run uses. The others are closed when they are given back. The JVM is about
        to end.
        """
        with self._lock:
            idle = [self._superseded(lent) for lent in self._open.values()]
            self._open.clear()
        for lent in idle:
            self._end(lent)

    def _superseded(self, lent: LentCatalog | None) -> LentCatalog | None:
        """Do not lend the catalog any more. Return it if no run uses it."""
        if lent is None:
            return None
        lent.superseded = True
        return None if lent.users else lent

    def _end(self, lent: LentCatalog | None) -> None:
        if lent is not None and lent.java is not None:
            self._close(lent.java)


def opened(session: Any, settings: SparkCatalogSettings) -> Any:
    """Open a catalog as Iceberg's `SparkCatalog` does, for all sessions. Raises what `translated` raises."""
    context = session.sparkContext
    jvm = context._jvm  # noqa: SLF001 - pyspark's own access to py4j
    engine = {"app-id": context.applicationId, "app-name": context.appName}
    with translated(Step.PLAN):
        hadoop = jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())  # noqa: SLF001 - likewise
        properties = jvm.java.util.TreeMap(jvm.java.lang.String.CASE_INSENSITIVE_ORDER)
        for key, value in settings.properties.items():
            properties.put(key, value)
            if key.startswith(_HADOOP):
                hadoop.set(key.removeprefix(_HADOOP), value)
        properties.put("app-id", context.applicationId)
        properties.put("user", context.sparkUser())
        for key, value in {**engine, "engine-name": "spark", "engine-version": context.version}.items():
            jvm.org.apache.iceberg.EnvironmentContext.put(key, value)
        made = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(settings.name, properties, hadoop)
    log.info("catalog_opened", catalog=settings.configured)
    return made


def _closed(java: Any) -> None:
    with on_the_way_out("closing a catalog"):
        java.close()
    log.info("catalog_closed")


CATALOGS = OpenCatalogs(_closed)
"""The open catalogs of this process, which has one JVM."""


_CATALOG: TypeAdapter[Catalog] = TypeAdapter(Catalog)
_VENDED = VendedFiles(Pointers())
"""The storages of this process."""

_CATALOG_KEY = "spark.sql.catalog."

_Options = TypeVar("_Options", bound=Settings)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTable:
    """The open table that every program works with. `spark` is the run's own session. `java` is an
    `org.apache.iceberg.Table`. `catalog` is the `org.apache.iceberg.catalog.Catalog` that has the table, if one has.
    `uuids` are those of its tables (`LentCatalog`).
    """

    spark: Any
    java: Any
    catalog: Any
    assignment: Assignment
    options: IcebergTableOptions
    storage: Storage
    clock: Clock
    uuids: dict[str, tuple[datetime, str | None]]

    @property
    def jvm(self) -> Any:
        """Return py4j's view of the JVM."""
        return self.spark.sparkContext._jvm  # noqa: SLF001 - pyspark's own access to py4j

    @property
    def actions(self) -> Any:
        """Return Iceberg's own actions, in the run's session (`org.apache.iceberg.spark.actions.SparkActions`)."""
        session = self.spark._jsparkSession  # noqa: SLF001 - pyspark's own access to py4j
        return self.jvm.org.apache.iceberg.spark.actions.SparkActions.get(session)

    def refreshed(self) -> str:
        """Ask the catalog for the current table, and return its metadata file. `java` is at that version."""
        with translated(Step.PLAN):
            self.java.refresh()
            return str(self.java.operations().current().metadataFileLocation())

    def metadata(self) -> TableMetadata:
        """Return the current metadata. The catalog names the file, and the daemon's reader reads it.

        `java` is at the same version. Raises TemporaryError or PermanentError. It changes nothing.
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
    """Open the table of a run. Its catalog is lent to the run until the run ends.

    Raises PermanentError if the catalog has no such table, if one of its secrets is missing, if a table of another
    format lies in its folder, or if there are newer versions of it than its catalog knows.
    """
    options = IcebergTableOptions.model_validate(dict(assignment.table_options))
    storage = _files(assignment, storage)
    with contextlib.ExitStack() as until_its_end:
        if assignment.catalog is not None:
            lent, java = until_its_end.enter_context(_from_catalog(session, assignment))
        else:
            with translated(Step.PLAN):
                lent, java = None, _by_path(session, assignment)
        _require_exclusion(session, java, assignment)
        table = OpenTable(
            spark=session,
            java=java,
            catalog=None if lent is None else lent.java,
            uuids={} if lent is None else lent.uuids,
            assignment=assignment,
            options=options,
            storage=storage,
            clock=clock,
        )
        _require_one_owner(table)
        yield table


def _require_one_owner(table: OpenTable) -> None:
    """Raise PermanentError if a table of another format lies in the table's folder, if the table is a copy of one, or
    if there are newer versions of it than its catalog knows.
    """
    metadata, own = table.metadata(), table.assignment.format
    require_own_folder(own, folders_of(metadata, table.options), table.storage, properties=metadata.properties)
    require_newest(table.metadata, table.storage, now=table.clock.now())


def _require_exclusion(session: Any, java: Any, assignment: Assignment) -> None:
    """Raise PermanentError if a commit of this run could replace one of a writer. The configuration of Hadoop may say
    so in this JVM alone.
    """
    if assignment.catalog is None or assignment.service not in COMMITTING:
        return
    catalog = _CATALOG.validate_python(dict(assignment.catalog))
    with translated(Step.PLAN):
        client = session.sparkContext._jsc.hadoopConfiguration().get(OF_A_CLIENT)  # noqa: SLF001 - pyspark's access
        properties = dict(java.properties())
    if (why := without_locks(properties, catalog, client=client)) is not None:
        raise PermanentError(f"{why.reason}; {why.remedy}")


def _files(assignment: Assignment, storage: Storage) -> Storage:
    """Return the storage for Lakewarden's own reader: with vended credentials, if the catalog has `access: vended`.
    Iceberg's client gets credentials of its own, and renews them itself.
    """
    if assignment.catalog is None:
        return storage
    catalog = _CATALOG.validate_python(dict(assignment.catalog))
    table = Table(id=assignment.table, format=assignment.format, location=assignment.location, catalog=catalog)
    return _VENDED.of(table, storage)


@contextlib.contextmanager
def _from_catalog(session: Any, assignment: Assignment) -> Iterator[tuple[LentCatalog, Any]]:
    """Lend the catalog and the table of `catalog://<name>/<namespace>.<table>`. If the run may have failed because of
    the catalog, the next run opens it again.
    """
    broken = False
    lent, java = _loaded(session, assignment)
    try:
        yield lent, java
    except LakewardenError as error:
        broken = not isinstance(error, YieldError)
        raise
    finally:
        CATALOGS.give_back(lent, broken=broken)


def _loaded(session: Any, assignment: Assignment) -> tuple[LentCatalog, Any]:
    """Load the table. If the catalog has loaded tables before and cannot load this one, it is opened again first. Its
    connections may have been closed by the other side.
    """
    settings = _settings(session, assignment)
    _, identifier = named_in_catalog(assignment.location)
    lent = CATALOGS.take(settings, lambda: opened(session, settings))
    if lent.proved:
        try:
            return lent, _load(session, lent, identifier)
        except LakewardenError:
            CATALOGS.give_back(lent, broken=True)
            lent = CATALOGS.take(settings, lambda: opened(session, settings))
    try:
        java = _load(session, lent, identifier)
    except BaseException:
        CATALOGS.give_back(lent, broken=True)
        raise
    lent.proved = True
    return lent, java


def _load(session: Any, lent: LentCatalog, identifier: str) -> Any:
    named = session.sparkContext._jvm.org.apache.iceberg.catalog.TableIdentifier  # noqa: SLF001 - pyspark's access to py4j
    with translated(Step.PLAN):
        return lent.java.loadTable(named.parse(identifier))


def _settings(session: Any, assignment: Assignment) -> SparkCatalogSettings:
    """Return the settings with which the table's catalog is opened. A database's catalog may have another name in
    Spark, because that name is part of the key of its rows. If a setting is missing here, the profile's setting for a
    catalog of that name counts.

    Raises PermanentError if a secret is missing.
    """
    configured, _ = named_in_catalog(assignment.location)
    conf = spark_conf(configured, _CATALOG.validate_python(dict(assignment.catalog or {})))
    (name,) = {key.removeprefix(_CATALOG_KEY).split(".")[0] for key in conf}
    start = f"{_CATALOG_KEY}{name}."
    given = {**dict(session.sparkContext.getConf().getAll()), **conf}
    properties = {key.removeprefix(start): value for key, value in given.items() if key.startswith(start)}
    return SparkCatalogSettings(configured=configured, name=name, properties=properties)


def _by_path(session: Any, assignment: Assignment) -> Any:
    configuration = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - pyspark's own access to py4j
    hadoop_tables = session.sparkContext._jvm.org.apache.iceberg.hadoop.HadoopTables  # noqa: SLF001
    return hadoop_tables(configuration).load(assignment.location)


def program(steps: Callable[[OpenTable, _Options], Steps], options: type[_Options]) -> Callable[..., Program]:
    """Return the program that takes these steps on an open table."""

    @contextlib.contextmanager
    def opened(session: Any, assignment: Assignment, storage: Storage, clock: Clock) -> Iterator[Steps]:
        given = options.model_validate(dict(assignment.service_options))
        with open_table(session, assignment, storage, clock=clock) as table:
            yield steps(table, given)

    return partial(Bracket, opened=opened)
