"""A Hive metastore for tests: in memory, and on the real protocol."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping, Sequence
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

from lakewarden.service.demo.process import free_port

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
