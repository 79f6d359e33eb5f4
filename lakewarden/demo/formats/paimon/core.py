"""Paimon's own core in a small JVM of its own, without an engine. The writer has one, and the reader has one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.java import LIGHT, java_home

_JVM = ["-Xmx512m", "-Duser.timezone=UTC", *LIGHT.split()]


class Core:
    """A JVM with Paimon's core. It ends with this process, also if this process is killed."""

    def __init__(self) -> None:
        spark = bundles.spark_jars()
        port, token = launch_gateway(
            jarpath=str(next(spark.glob("py4j-*.jar"))),
            classpath=os.pathsep.join([*map(str, bundles.jars(("paimon",))), str(spark / "*")]),
            javaopts=list(_JVM),
            die_on_exit=True,
            java_path=str(java_home() / "bin" / "java"),
            enable_auth=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))

    @property
    def paimon(self) -> Any:
        """The package `org.apache.paimon`."""
        return self._gateway.jvm.org.apache.paimon

    def texts(self, *texts: str) -> Any:
        """Return a Java list."""
        found = self._gateway.jvm.java.util.ArrayList()
        for one in texts:
            found.add(one)
        return found

    def options(self, options: Mapping[str, str]) -> Any:
        """Return a Java map."""
        found = self._gateway.jvm.java.util.HashMap()
        for key, value in options.items():
            found.put(key, value)
        return found

    def table(self, folder: Path, options: Mapping[str, str] | None = None) -> Any:
        """Return the table in a folder, with its newest schema and with options of this use. Raises any error of
        Paimon.
        """
        place = self.paimon.fs.Path(str(folder))
        table = self.paimon.table.FileStoreTableFactory.create(self.paimon.fs.local.LocalFileIO(), place)
        return table.copy(self.options(options)) if options else table

    def make_table(
        self,
        folder: Path,
        *,
        columns: Mapping[str, Any],
        partitioned_by: Iterable[str],
        key: Iterable[str],
        options: Mapping[str, str],
    ) -> None:
        """Make a table in `<warehouse>/<database>.db/<table>`, unless it is there."""
        where = self.paimon.catalog.CatalogContext.create(self.paimon.fs.Path(str(folder.parents[1])))
        catalog = self.paimon.catalog.CatalogFactory.createCatalog(where)
        database = folder.parent.name.removesuffix(".db")
        catalog.createDatabase(database, bool(1))
        schema = self.paimon.schema.Schema.newBuilder()
        for name, column_type in columns.items():
            schema = schema.column(name, column_type)
        schema = schema.partitionKeys(self.texts(*partitioned_by)).primaryKey(self.texts(*key))
        for option, value in options.items():
            schema = schema.option(option, value)
        catalog.createTable(self.paimon.catalog.Identifier.create(database, folder.name), schema.build(), bool(1))
        catalog.close()

    def close(self) -> None:
        """End the JVM."""
        self._gateway.shutdown()
