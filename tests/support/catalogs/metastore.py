"""Hive metastores for tests, on the real protocol: one in memory, and Hive's own from the jars that PySpark brings."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hive_metastore.ThriftHiveMetastore import Client, Processor  # type: ignore[import-untyped]
from hive_metastore.ttypes import (  # type: ignore[import-untyped]
    AlreadyExistsException,
    Database,
    DropPartitionsResult,
    FieldSchema,
    MetaException,
    NoSuchObjectException,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from py4j.protocol import Py4JJavaError
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolFactory  # type: ignore[import-untyped]
from thrift.server.TServer import TThreadedServer  # type: ignore[import-untyped]
from thrift.transport.TSocket import TServerSocket, TSocket  # type: ignore[import-untyped]
from thrift.transport.TTransport import TBufferedTransport, TBufferedTransportFactory  # type: ignore[import-untyped]

from lakewarden.demo.daemon import free_port
from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.java import LIGHT, java_home
from tests.support.object_stores.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

PARQUET = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
PLAIN = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"

_DDL_TIME = "transient_lastDdlTime"

_SERVER = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_OPENED = ("java.lang", "java.net", "java.util", "java.util.concurrent", "java.util.regex", "java.io", "java.nio")


class MetastoreClient:
    """Makes and drops tables, as writers do."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def tell(self, method: str, *arguments: Any) -> Any:
        """Call a method of the protocol."""
        transport = TBufferedTransport(TSocket("127.0.0.1", self.port))
        transport.open()
        try:
            return getattr(Client(TBinaryProtocol(transport)), method)(*arguments)
        finally:
            transport.close()

    def create_database(self, name: str) -> None:
        self.tell(
            "create_database", Database(name=name, description="", locationUri=f"file:/tmp/none/{name}", parameters={})
        )

    def create_table(
        self,
        name: str,
        location: str,
        *,
        input_format: str = PARQUET,
        parameters: Mapping[str, str] | None = None,
        path: str | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        """Make `database.table`; `path` is the serde's, which Spark goes by. `keys` are the partition columns with
        their types.
        """
        database, _, table = name.rpartition(".")
        column = FieldSchema(name="id", type="string", comment="")
        storage = StorageDescriptor(
            cols=[column],
            location=location,
            inputFormat=input_format,
            outputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=SerDeInfo(
                name=table,
                serializationLib="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
                parameters={} if path is None else {"path": path},
            ),
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        made = Table(
            tableName=table,
            dbName=database,
            owner="tests",
            createTime=1,
            lastAccessTime=1,
            retention=0,
            sd=storage,
            partitionKeys=[
                FieldSchema(name=key, type=kind, comment="") for key, kind in (keys or {"day": "string"}).items()
            ],
            parameters={"EXTERNAL": "TRUE", **(parameters or {})},
            tableType="EXTERNAL_TABLE",
        )
        self.tell("create_table", made)

    def drop_table(self, name: str) -> None:
        database, _, table = name.rpartition(".")
        self.tell("drop_table", database, table, False)

    def add_partition(self, name: str, value: str | Sequence[str], location: str) -> None:
        """Make a partition of `database.table` by its value, or by the values of several keys."""
        database, _, table = name.rpartition(".")
        storage = StorageDescriptor(
            cols=[],
            location=location,
            inputFormat=PARQUET,
            outputFormat="none",
            compressed=False,
            numBuckets=-1,
            serdeInfo=SerDeInfo(name=table, serializationLib="none", parameters={}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        made = Partition(
            values=[value] if isinstance(value, str) else list(value),
            dbName=database,
            tableName=table,
            createTime=1,
            lastAccessTime=1,
            sd=storage,
            parameters={},
        )
        self.tell("add_partition", made)

    def partitions_of(self, name: str) -> Mapping[tuple[str, ...], Any]:
        """Return the partitions of `database.table` by their values."""
        database, _, table = name.rpartition(".")
        names = self.tell("get_partition_names", database, table, -1)
        listed = self.tell("get_partitions_by_names", database, table, names) if names else []
        return {tuple(one.values): one for one in listed}


class _Server(TThreadedServer):  # type: ignore[misc] # it has no types
    """One that ends when it is stopped: the library's asks a closed socket for ever, with a traceback each time."""

    def serve(self) -> None:
        self.serverTransport.listen()
        listening = self.serverTransport.handle
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            client = TSocket()
            client.setHandle(accepted)
            threading.Thread(target=self.handle, args=(client,), daemon=True).start()

    def stop(self) -> None:
        """End it; once more does no harm."""
        if self.serverTransport.handle is not None:
            self.serverTransport.handle.shutdown(socket.SHUT_RDWR)  # to close it alone would wake nobody who accepts
            self.serverTransport.close()


class MetastoreInMemory(MetastoreClient):
    """Answers the same protocol from memory. Databases that are `closed` are refused, as by an authorizer."""

    def __init__(self) -> None:
        super().__init__(free_port())
        self._tables: dict[str, dict[str, Any]] = {"default": {}}
        self.partitions: dict[tuple[str, str], dict[str, Any]] = {}
        self.dropped: list[Any] = []
        self.closed: set[str] = set()
        listening = TServerSocket("127.0.0.1", self.port)
        self._server = _Server(
            Processor(_Answers(self)), listening, TBufferedTransportFactory(), TBinaryProtocolFactory(), daemon=True
        )
        self._serving = threading.Thread(target=self._server.serve, daemon=True)
        self._serving.start()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.stop()
        self._serving.join(10)
        assert not self._serving.is_alive()

    def tables(self, database: str) -> dict[str, Any]:
        if database in self.closed:
            raise MetaException(f"no privilege on {database}")
        if database not in self._tables:
            raise NoSuchObjectException(database)
        return self._tables[database]

    def databases(self) -> dict[str, dict[str, Any]]:
        return self._tables


class _Answers:
    """The part of the protocol that is used."""

    def __init__(self, memory: MetastoreInMemory) -> None:
        self._memory = memory

    def get_all_databases(self) -> list[str]:
        return list(self._memory.databases())

    def create_database(self, database: Any) -> None:
        self._memory.databases()[database.name] = {}

    def get_all_tables(self, database: str) -> list[str]:
        return list(self._memory.tables(database))

    def create_table(self, table: Any) -> None:
        self._memory.tables(table.dbName)[table.tableName] = table

    def drop_table(self, database: str, name: str, _: bool) -> None:
        del self._memory.tables(database)[name]

    def get_table(self, database: str, name: str) -> Any:
        known = self._memory.tables(database)
        if name not in known:
            raise NoSuchObjectException(name)
        return known[name]

    def get_table_objects_by_name(self, database: str, names: Sequence[str]) -> list[Any]:
        known = self._memory.tables(database)
        return [known[name] for name in names if name in known]

    def add_partition(self, partition: Any) -> Any:
        known = self._partitions(partition.dbName, partition.tableName)
        name = self._named(partition.dbName, partition.tableName, partition.values)
        if name in known:
            raise AlreadyExistsException(name)
        partition.parameters = {_DDL_TIME: str(int(time.time())), **(partition.parameters or {})}
        known[name] = partition
        return partition

    def get_partition(self, database: str, table: str, values: Sequence[str]) -> Any:
        known, name = self._partitions(database, table), self._named(database, table, values)
        if name not in known:
            raise NoSuchObjectException(name)
        return known[name]

    def alter_partition(self, database: str, table: str, partition: Any) -> None:
        self.get_partition(database, table, partition.values)
        self._partitions(database, table)[self._named(database, table, partition.values)] = partition

    def alter_partition_with_environment_context(self, database: str, table: str, partition: Any, _: Any) -> None:
        self.alter_partition(database, table, partition)

    def drop_partition(self, database: str, table: str, values: Sequence[str], deleteData: bool) -> bool:  # noqa: N803 - of the protocol
        assert not deleteData
        self.get_partition(database, table, values)
        del self._partitions(database, table)[self._named(database, table, values)]
        return True

    def _partitions(self, database: str, table: str) -> dict[str, Any]:
        return self._memory.partitions.setdefault((database, table), {})

    def _named(self, database: str, table: str, values: Sequence[str]) -> str:
        keys = [key.name for key in self._memory.tables(database)[table].partitionKeys]
        return "/".join(f"{key}={_escaped(value)}" for key, value in zip(keys, values, strict=True))

    def get_partition_names(self, database: str, table: str, _: int) -> list[str]:
        return list(self._memory.partitions.get((database, table), {}))

    def get_partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[Any]:
        known = self._memory.partitions.get((database, table), {})
        return [known[name] for name in reversed(names) if name in known]

    def drop_partitions_req(self, request: Any) -> Any:
        known = self._memory.partitions[request.dbName, request.tblName]
        self._memory.dropped.append(request)
        for name in request.parts.names:
            known.pop(name, None)
        return DropPartitionsResult()


def _escaped(value: str) -> str:
    """Return a value as it stands in a partition's name (`FileUtils.escapePathName`)."""
    return "".join(f"%{ord(sign):02X}" if sign in "\"#%'*/:=?\\{[]^" else sign for sign in value)


def make_lock_tables(jvm: Any, folder: Path) -> None:
    """Make the tables of Hive's transactions in the database of a metastore, as `schematool` does. A metastore makes
    the others by itself. `jvm` is any with Hive's jars.
    """
    jvm.java.lang.System.setProperty("derby.stream.error.file", f"{folder}/derby-tables.log")
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    conf.set("javax.jdo.option.ConnectionURL", f"jdbc:derby:{folder}/db;create=true")
    jvm.org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(conf)
    with contextlib.suppress(Py4JJavaError):  # this is how Derby says that it has let go of the files
        jvm.java.sql.DriverManager.getConnection(f"jdbc:derby:{folder}/db;shutdown=true")


class RealMetastore(MetastoreClient):
    """The metastore of Hive 2.3.9 in a process of its own, with a database in `folder` that outlives it.

    It grants no locks, unless `make_lock_tables` has made its tables before. `jars` come before those of PySpark.
    """

    def __init__(self, folder: Path, *, jars: Sequence[Path] = ()) -> None:
        super().__init__(free_port())
        self._folder, self._jars = folder, jars
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @classmethod
    def on_s3(cls, folder: Path, server: S3Server) -> RealMetastore:
        """Start one that reaches an S3 server: it makes the folders of databases and tables itself."""
        settings = {
            "fs.s3a.endpoint": server.endpoint,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
        }
        told = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items()
        )
        (folder / "conf").mkdir(parents=True)
        (folder / "conf" / "core-site.xml").write_text(f"<configuration>{told}</configuration>")
        return cls(folder, jars=[folder / "conf", *bundles.fetch((), stores=["s3"])])

    def start(self) -> None:
        """Start it, at the port that it had before; returns at once."""
        folder = self._folder
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:{folder}/db;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.async.log.enabled": "false",  # it would need a jar that PySpark does not bring
            "hive.metastore.warehouse.dir": f"{folder}/warehouse",
            "derby.stream.error.file": f"{folder}/derby.log",
        }
        command = [f"{java_home()}/bin/java", "-Xmx256m", *LIGHT.split()]
        command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        command += [f"-D{key}={value}" for key, value in settings.items()]
        jars = [*map(str, self._jars), f"{Path(pyspark.__file__).parent}/jars/*"]
        command += ["-cp", os.pathsep.join(jars), _SERVER, "-p", str(self.port)]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=dict(os.environ))

    def wait(self) -> None:
        """Return when it listens."""
        assert self._process is not None
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)
        pytest.fail(f"the metastore did not start: {(self._folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        """Kill it: what it has answered is in its database."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
