"""The data files of a table by Hudi's two listings: of its metadata table, and of its folders."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.catalogs.metastore import address_of
from lakewarden.planners.formats.hudi.deletion.expiry import place_in
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.metastores import Metastores
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import canonical_location

if TYPE_CHECKING:
    from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]


AT_ONCE = 200
"""How many partitions are listed at a time. All their files are in memory."""

_PATH = re.compile(r"StoragePathInfo\{path=(.*?), length=\d+, isDirectory=")
_SIZE = re.compile(r", length=(\d+), isDirectory=")
"""How `StoragePathInfo.toString` begins (1.2.0)."""


class Listings:
    """Both listings, made anew each time (`HoodieBackedTableMetadata` and `FileSystemBackedTableMetadata`, which lists
    folders in Spark tasks).
    """

    def __init__(self, client: HudiClient) -> None:
        self._client = client

    def partitions(self) -> list[str]:
        """Return the paths of all partitions that either of the two knows."""
        return sorted({*_partitions(self._metadata_table()), *_partitions(self._stored())})

    def known(self, partitions: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the names of the data files in partitions, as the metadata table knows them."""
        return self._files(self._metadata_table(), partitions)

    def stored(self, partitions: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the names of the data files that lie in the folders of partitions."""
        return self._files(self._stored(), partitions)

    def count_stored(self) -> int:
        """Return how many data files lie in the table's folders."""
        partitions = _partitions(self._stored())
        chunks = (partitions[start : start + AT_ONCE] for start in range(0, len(partitions), AT_ONCE))
        return sum(len(names) for chunk in chunks for names in self.stored(chunk).values())

    def bytes_stored(self) -> int:
        """Return how many bytes lie in the table's folders."""
        total = 0
        with contextlib.closing(self._stored()) as listing:
            partitions = [str(path) for path in listing.getAllPartitionPaths()]
            for start in range(0, len(partitions), AT_ONCE):
                folders = self._folders(partitions[start : start + AT_ONCE])
                statuses = listing.getAllFilesInPartitions(self._client.java_list([*folders]))
                total += sum(int(size) for files in statuses.values() for size in _SIZE.findall(str(files.toString())))
        return total

    def _metadata_table(self) -> Any:
        made = self._client.hudi.metadata.HoodieBackedTableMetadata
        settings = self._client.java.getConfig().getMetadataConfig()
        return made(self._client.java.getEngineContext(), self._client.storage, settings, self._client.location)

    def _stored(self) -> Any:
        made = self._client.hudi.metadata.FileSystemBackedTableMetadata
        return made(self._client.java.getEngineContext(), self._client.storage, self._client.location)

    def _folders(self, partitions: Sequence[str]) -> Mapping[str, str]:
        """Return the paths of partitions by their folders."""
        base = self._client.base
        return {f"{base}/{path}" if path else base: path for path in partitions}

    def _files(self, listing: Any, partitions: Sequence[str]) -> Mapping[str, frozenset[str]]:
        folders = self._folders(partitions)
        with contextlib.closing(listing):
            statuses = listing.getAllFilesInPartitions(self._client.java_list([*folders]))
        return {folders[str(folder)]: _data_files(str(statuses[folder].toString())) for folder in statuses}


def _partitions(listing: Any) -> list[str]:
    with contextlib.closing(listing):
        return [str(path) for path in listing.getAllPartitionPaths()]


def _data_files(listed: str) -> frozenset[str]:
    """Return the names of data files in the text of a list of files: one call of Java for any number of them."""
    names = {path.rsplit("/", 1)[-1] for path in _PATH.findall(listed)}
    return frozenset(name for name in names if _is_data(name))


def _is_data(name: str) -> bool:
    """Whether a file in a partition's folder is data, and neither Hudi's partition metadata nor a checksum."""
    return not name.startswith(".hoodie_partition_metadata") and not name.endswith(".crc")


# Moments in which no write in flight conflicts with what is about to be done under the table's lock.

_BETWEEN_LOOKS = timedelta(milliseconds=200)
_UNTIL_THEY_SAY_WHERE = timedelta(seconds=5)
"""How long the lock is held for writes in flight to say what they touch. Several writers that are never idle have
hardly ever all said it, unless none begins meanwhile. Writers wait for the lock for minutes."""

_UNTIL_IT_IS_CARRIED_OUT = timedelta(minutes=1)


@contextlib.contextmanager
def alone_between_writes(
    table: OpenTable,
    in_the_way: Callable[[TableView], Sequence[Instant]],
    *,
    why: Callable[[Instant], str] | None,
    within: timedelta,
    commits: bool = False,
    judge: Callable[[TableView], None] | None = None,
) -> Iterator[TableView]:
    """Hold the table's lock in a moment in which no write is `in_the_way`, with an observation of the table under it.

    No write begins while it is held (`OpenTable.alone`). The table is observed without the lock, over and over, for a
    moment to take it. After `within` the lock is taken in any case. Then it is held until the writes in the way have
    said what they touch, which may show that they do not conflict. If there is no such moment, raises YieldError with
    the reason `why`. Without `why` the block is entered beside those writes. Each observation under the lock is first
    passed to `judge`. Its errors are raised.
    """
    deadline = table.clock.monotonic() + within.total_seconds()
    while True:
        late = table.clock.monotonic() >= deadline
        if late or not _at_a_glance(table, in_the_way, commits=commits):
            with table.alone():
                view, met = _patiently(table, in_the_way, judge, commits=commits, patient=late)
                if not met or (late and why is None):
                    yield view
                    return
            if late and why is not None:
                raise YieldError(why(met[0]))
        time.sleep(_BETWEEN_LOOKS.total_seconds())


def _at_a_glance(
    table: OpenTable, in_the_way: Callable[[TableView], Sequence[Instant]], *, commits: bool
) -> Sequence[Instant]:
    """Return the writes in the way by an observation without the lock. It may find a file that is being written."""
    try:
        return in_the_way(table.view(commits=commits))
    except TemporaryError:
        return ()


def _patiently(
    table: OpenTable,
    in_the_way: Callable[[TableView], Sequence[Instant]],
    judge: Callable[[TableView], None] | None,
    *,
    commits: bool,
    patient: bool,
) -> tuple[TableView, Sequence[Instant]]:
    """Return an observation under the lock, and the writes that are in the way by it."""
    deadline = table.clock.monotonic() + (_UNTIL_THEY_SAY_WHERE.total_seconds() if patient else 0)
    while True:
        late = table.clock.monotonic() >= deadline
        try:
            view = table.view(commits=commits)
            if judge is not None:
                judge(view)
            met = in_the_way(view)
            if late or not met or any(write.time in view.writers.touching for write in met):
                return view, met
        except YieldError:
            raise
        except TemporaryError:  # a file is being written
            if late:
                raise
        time.sleep(_BETWEEN_LOOKS.total_seconds())


def refuse_what_stops_a_build(table: OpenTable, view: TableView) -> None:
    """Raise YieldError for a pending instant beside which Hudi makes no part of the metadata table. Below table version
    8 any stops it, also a plan that waits. Hudi only logs that (`shouldInitializeFromFilesystem`, 1.2.0, and run).
    """
    writes = {write.time for write in view.writers.in_flight}
    if table.properties().layout is Layout.V1:
        for instant in view.timeline.instants:
            if instant.pending and instant.time not in writes:
                raise YieldError(
                    f"{instant.action} {instant.time} is pending, and below table version 8 Hudi makes no part of the "
                    "metadata table beside it: let it be carried out, or take it off the timeline",
                    delay=_UNTIL_IT_IS_CARRIED_OUT,
                )


# The partitions of a Hudi table that a Hive metastore lists, found by their place, and their removal from the list.
#
# Their names there depend on the writer's extractor (`hoodie.datasource.hive_sync.partition_extractor_class`). Their
# places do not: Hudi's `HMSDDLExecutor` records the table's path with the partition's below it (bytecode, 1.2.0).

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

        tables = []
        for name in (self._table + suffix for suffix in _NAMES):
            try:
                address = address_of(client.get_table(self._database, name))
            except NoSuchObjectException:
                continue
            if address is not None and canonical_location(address) == self._location:
                tables.append(name)
            elif name == self._table:
                where = "not a Hudi table" if address is None else f"at {shown(address)}"
                raise PermanentError(f"{self._place} is {where}, and not this table: name another one in catalog_sync")
        if not tables:
            raise TemporaryError(f"{self._place} is missing: has a writer ever synced the table into it?")
        return tables

    def _partitions(self, client: Client, table: str, of: Collection[str]) -> dict[str, str]:
        names = iter(client.get_partition_names(self._database, table, _ALL))
        partitions = {}
        while some := list(islice(names, _AT_ONCE)):
            for name, path in self._paths(client, table, some):
                if path in of:
                    partitions[name] = path
        return partitions

    def _paths(self, client: Client, table: str, names: list[str]) -> Iterator[tuple[str, str]]:
        """Yield the partitions of these names that lie in the table, with their paths below it."""
        called = {_values(name): name for name in names}
        for partition in client.get_partitions_by_names(self._database, table, names):
            name = called.get(tuple(partition.values))
            try:
                place = canonical_location(partition.sd.location)
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
