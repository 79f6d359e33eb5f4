"""The catalogs of a JVM. Each is opened once for its settings, lent to any number of runs, and closed here.

Each session of Spark would open a catalog of its own and close none. Its connections would stay as long as the JVM. A
database has only a limited number of connections, also for writers.

Source: Iceberg 1.11, `spark.SparkCatalog` (how it opens one), `jdbc.JdbcClientPool` (a connection that could not be
opened again stays in the pool, closed).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from lakewarden.executors.programs.iceberg.client.errors import on_the_way_out, translated
from lakewarden.planners.model.step import Step

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
