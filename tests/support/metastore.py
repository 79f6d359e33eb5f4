"""Hive metastores for tests, on the real protocol: one in memory, and Hive's own from the jars that PySpark brings."""

from __future__ import annotations

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
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolFactory  # type: ignore[import-untyped]
from thrift.server.TServer import TThreadedServer  # type: ignore[import-untyped]
from thrift.transport.TSocket import TServerSocket, TSocket  # type: ignore[import-untyped]
from thrift.transport.TTransport import TBufferedTransport, TBufferedTransportFactory  # type: ignore[import-untyped]

from lakewarden.demo.process import free_port
from lakewarden.executors.worker.java import java_home

PARQUET = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
PLAIN = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"

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
    ) -> None:
        """Make `database.table`; `path` is the serde's, which Spark goes by."""
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
            partitionKeys=[FieldSchema(name="day", type="string", comment="")],
            parameters={"EXTERNAL": "TRUE", **(parameters or {})},
            tableType="EXTERNAL_TABLE",
        )
        self.tell("create_table", made)

    def drop_table(self, name: str) -> None:
        database, _, table = name.rpartition(".")
        self.tell("drop_table", database, table, False)

    def add_partition(self, name: str, value: str, location: str) -> None:
        """Make a partition of `database.table`, whose one key has this value."""
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
            values=[value], dbName=database, tableName=table, createTime=1, lastAccessTime=1, sd=storage, parameters={}
        )
        self.tell("add_partition", made)


class MetastoreInMemory(MetastoreClient):
    """Answers the same protocol from memory. Databases that are `closed` are refused, as by an authorizer."""

    def __init__(self) -> None:
        super().__init__(free_port())
        self._tables: dict[str, dict[str, Any]] = {"default": {}}
        self.partitions: dict[tuple[str, str], dict[str, Any]] = {}
        self.dropped: list[Any] = []
        self.closed: set[str] = set()
        listening = TServerSocket("127.0.0.1", self.port)
        self._server = TThreadedServer(
            Processor(_Answers(self)), listening, TBufferedTransportFactory(), TBinaryProtocolFactory(), daemon=True
        )
        threading.Thread(target=self._server.serve, daemon=True).start()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.serverTransport.close()

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
        known = self._memory.partitions.setdefault((partition.dbName, partition.tableName), {})
        known[f"day={_escaped(partition.values[0])}"] = partition
        return partition

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


class RealMetastore(MetastoreClient):
    """The metastore of Hive 2.3.9 in a process of its own, with a database in `folder` that outlives it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(free_port())
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

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
        command = [f"{java_home()}/bin/java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        command += [f"-D{key}={value}" for key, value in settings.items()]
        command += ["-cp", f"{Path(pyspark.__file__).parent}/jars/*", _SERVER, "-p", str(self.port)]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=dict(os.environ))

    def wait(self) -> None:
        """Return when it listens."""
        assert self._process is not None
        deadline = time.monotonic() + 180
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
