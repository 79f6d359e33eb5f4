"""A live Paimon writer: inserts, changes and deletes by key, by Paimon's own core, with the commits of a streaming job.

    python -m lakewarden.demo.formats.paimon.writer --path FOLDER --options FILE --record FILE

It ends `--seconds` after its first commit, on SIGTERM, or if the process that started it is gone. It always ends
between two commits. It records failed commits and tries the same rows again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakewarden.demo.writers import orders
from lakewarden.demo.writers.orders import Row
from lakewarden.demo.writers.writing import WritingTime, add_writer_arguments, write_on
from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.java import LIGHT, java_home

# Paimon's own core in a small JVM of its own, without an engine. The writer has one, and the reader has one.

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
        java_list = self._gateway.jvm.java.util.ArrayList()
        for text in texts:
            java_list.add(text)
        return java_list

    def options(self, options: Mapping[str, str]) -> Any:
        """Return a Java map."""
        java_map = self._gateway.jvm.java.util.HashMap()
        for key, value in options.items():
            java_map.put(key, value)
        return java_map

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


# How one batch of rows becomes one Paimon commit: inserts, changes and deletions of rows by their key.

COLUMNS = ("region", "order_id", "version")
"""The columns of the table. The first is the partition, the first two are the key."""

EXPIRED = "2000-"
"""How the values of partitions begin that are long past. They are work for ttl. No record of a writer has their rows,
and readers leave them out, because they go at any time."""

_OPTIONS: Mapping[str, str] = {"bucket": "2"}


class StreamCommitter:
    """Commits each batch as a streaming job commits a checkpoint: by one commit user, with a number that rises.
    Fulfils `writing.Committer`.
    """

    def __init__(self, core: Core, folder: Path, *, options: Mapping[str, str], expired_every: int = 0) -> None:
        """`folder` is the table's. `options` are table options besides the demo's own. A row goes into a partition that
        is long past once in `expired_every` commits; 0 means never.
        """
        self._core = core
        self._folder = folder
        self._options = {**_OPTIONS, **options}
        self._expired_every = expired_every
        self._user = f"writer-{uuid.uuid4()}"
        self._identifier = 0
        self._job: tuple[Any, Any] | None = None

    def commit(self, _batch: int, rows: tuple[Row, ...]) -> None:
        """Commit the rows, into a table that is made before the first rows. After a failure the job begins anew."""
        self._identifier += 1
        writing, committing = self._job or self._begun()
        self._job = None
        for row in (*rows, *self._expired()):
            writing.write(self._made(row))
        committing.commit(self._identifier, writing.prepareCommit(bool(0), self._identifier))
        self._job = writing, committing

    def _expired(self) -> tuple[Row, ...]:
        if not self._expired_every or self._identifier % self._expired_every:
            return ()
        day = self._identifier // self._expired_every % 28 + 1
        key = f"expired-{self._identifier}"
        return (Row(key=key, partition=f"{EXPIRED}01-{day:02}", value=self._identifier),)

    def _begun(self) -> tuple[Any, Any]:
        paimon = self._core.paimon
        text, number = paimon.types.DataTypes.STRING(), paimon.types.DataTypes.INT()
        self._core.make_table(
            self._folder,
            columns=dict(zip(COLUMNS, (text, text, number), strict=True)),
            partitioned_by=COLUMNS[:1],
            key=COLUMNS[:2],
            options=self._options,
        )
        job = paimon.table.sink.StreamWriteBuilderImpl(self._core.table(self._folder)).withCommitUser(self._user)
        return job.newWrite(), job.newCommit()

    def _made(self, row: Row) -> Any:
        paimon = self._core.paimon
        made = paimon.data.GenericRow(len(COLUMNS))
        made.setField(0, paimon.data.BinaryString.fromString(row.partition))
        made.setField(1, paimon.data.BinaryString.fromString(row.key))
        made.setField(2, row.value)
        if row.deleted:
            made.setRowKind(paimon.types.RowKind.DELETE)
        return made


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the record has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="the table's folder: WAREHOUSE/DATABASE.db/TABLE")
    parser.add_argument(
        "--expired-every",
        type=int,
        default=0,
        help="every so many commits a row goes into a partition that is long past",
    )
    add_writer_arguments(parser, every=1)
    arguments = parser.parse_args()
    writing_time = WritingTime(arguments.seconds)
    core = Core()
    options = json.loads(arguments.options.read_text(encoding="utf-8"))
    committer = StreamCommitter(core, arguments.path, options=options, expired_every=arguments.expired_every)
    write_on(committer, orders.batches(arguments.seed), arguments.record, writing_time, every=arguments.every)
    core.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
