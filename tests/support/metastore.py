"""Hive metastores for tests: the real server, of the jars that PySpark brings, and one in memory, on one protocol."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from hive_metastore.ThriftHiveMetastore import Client, Processor  # type: ignore[import-untyped]
from hive_metastore.ttypes import (  # type: ignore[import-untyped]
    Database,
    FieldSchema,
    MetaException,
    NoSuchObjectException,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolFactory  # type: ignore[import-untyped]
from thrift.server.TServer import TThreadedServer  # type: ignore[import-untyped]
from thrift.transport.TSocket import TServerSocket, TSocket  # type: ignore[import-untyped]
from thrift.transport.TTransport import TBufferedTransport, TBufferedTransportFactory  # type: ignore[import-untyped]

from lakewarden.executors.worker.bundles import spark_jars
from lakewarden.executors.worker.java import java_home
from lakewarden.service.demo.process import Child, free_port

PARQUET = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
PLAIN = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"


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


class RealMetastore(MetastoreClient):
    """`org.apache.hadoop.hive.metastore.HiveMetaStore` of Hive 2.3.9 over an embedded Derby, in a JVM of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(free_port())
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
            "hive.metastore.schema.verification": "false",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.warehouse.dir": f"{folder}/warehouse",
            "derby.stream.error.file": f"{folder}/derby.log",
        }
        command = [f"{java_home()}/bin/java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-cp", f"{spark_jars()}/*", *(f"-D{key}={value}" for key, value in settings.items())]
        command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port)]
        self._process = Child("metastore", command, log=folder / "metastore.log")

    def wait(self) -> None:
        """Return when it answers."""
        deadline = time.monotonic() + 120
        while True:
            try:
                self.tell("get_all_databases")
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def stop(self) -> None:
        """End it."""
        self._process.end(grace=timedelta(seconds=2))


class MetastoreInMemory(MetastoreClient):
    """Answers the same protocol from memory. Databases that are `closed` are refused, as by an authorizer."""

    def __init__(self) -> None:
        super().__init__(free_port())
        self._tables: dict[str, dict[str, Any]] = {"default": {}}
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
