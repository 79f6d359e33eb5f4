"""The partitions of a Hudi table that a Hive metastore lists, found by their place, and their removal from the list.

Their names there depend on the writer's extractor (`hoodie.datasource.hive_sync.partition_extractor_class`). Their
places do not: Hudi's `HMSDDLExecutor` records the table's path with the partition's below it (bytecode, 1.2.0).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakewarden.planners.formats.hudi.catalogs.metastore import address_of
from lakewarden.planners.formats.hudi.deletion.deletions import place_in
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.metastores import Metastores
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import canonical_location

if TYPE_CHECKING:
    from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]

_NAMES = ("", "_ro", "_rt")
"""What Hudi's sync appends to a table's name for the views of a merge-on-read table (`HiveSyncTool`)."""
_ALL = -1
_AT_ONCE = 200


class ListedPartitions:
    """What a metastore lists of one table under each of its names."""

    def __init__(self, options: CatalogSyncOptions, location: str) -> None:
        """`location` is the table's canonical one. Raises PermanentError if there is no client library."""
        self._place = place_in(options)
        self._metastores = Metastores(self._place, options.uri or "", timeout=options.timeout)
        self._database, self._table = options.database or "", options.table or ""
        self._location = location

    def tables(self) -> list[str]:
        """Return the names under which the metastore knows the table.

        Raises TemporaryError if it knows it under none, PermanentError if another table has its name.
        """
        return self._metastores.asked(self._tables)

    def partitions(self, table: str, of: Collection[str]) -> Mapping[str, str]:
        """Return the paths of those partitions `of` the table that are listed, by their names in the metastore."""
        return self._metastores.asked(lambda client: self._partitions(client, table, of))

    def drop(self, table: str, names: Collection[str]) -> None:
        """Remove partitions from the list, in one request, and no file. A partition that is gone does no harm."""
        if names:
            self._metastores.asked(lambda client: self._drop(client, table, names))

    def _tables(self, client: Client) -> list[str]:
        from hive_metastore.ttypes import NoSuchObjectException  # type: ignore  # noqa: PLC0415 - optional

        found = []
        for name in (self._table + suffix for suffix in _NAMES):
            try:
                address = address_of(client.get_table(self._database, name))
            except NoSuchObjectException:
                continue
            if address is not None and canonical_location(address) == self._location:
                found.append(name)
            elif name == self._table:
                where = "no Hudi table" if address is None else f"at {shown(address)}"
                raise PermanentError(f"{self._place} is {where}, and not this table: name another one in catalog_sync")
        if not found:
            raise TemporaryError(f"{self._place} is missing: has a writer ever synced the table into it?")
        return found

    def _partitions(self, client: Client, table: str, of: Collection[str]) -> dict[str, str]:
        names = iter(client.get_partition_names(self._database, table, _ALL))
        found = {}
        while some := list(islice(names, _AT_ONCE)):
            for name, path in self._paths(client, table, some):
                if path in of:
                    found[name] = path
        return found

    def _paths(self, client: Client, table: str, names: list[str]) -> Iterator[tuple[str, str]]:
        """Yield the partitions of these names that lie in the table, with their paths below it."""
        called = {_values(name): name for name in names}
        for one in client.get_partitions_by_names(self._database, table, names):
            name = called.get(tuple(one.values))
            try:
                place = canonical_location(one.sd.location)
            except PermanentError:
                continue
            if name is not None and place.startswith(f"{self._location}/"):
                yield name, place.removeprefix(f"{self._location}/")

    def _drop(self, client: Client, table: str, names: Collection[str]) -> None:
        from hive_metastore.ttypes import DropPartitionsRequest, RequestPartsSpec  # noqa: PLC0415 - optional

        client.drop_partitions_req(
            DropPartitionsRequest(
                dbName=self._database,
                tblName=table,
                parts=RequestPartsSpec(names=list(names)),
                deleteData=False,
                ifExists=True,
                ignoreProtection=False,
                needResult=False,
            )
        )


def _values(name: str) -> tuple[str, ...]:
    """Return the values in a partition's name (`Warehouse.makeSpecFromName`: `%` and two digits escape ASCII alone)."""
    return tuple(unquote(part.partition("=")[2]) for part in name.split("/"))
