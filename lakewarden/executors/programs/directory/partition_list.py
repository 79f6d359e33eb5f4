"""The list of a directory's partitions in its metastore, as a run changes it. No file is touched with it.

Each act may be repeated, by the same run or by another, and has the effect of one. Source: Flink's
`HiveTableMetaStoreFactory.createOrAlterPartition`. Flink also points a listed partition at its folder. Here a partition
that is listed at another place stays as it is.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator

from lakewarden.executors.contract import Assignment
from lakewarden.planners.formats.directory.format import DIRECTORY
from lakewarden.planners.formats.directory.listing.folders import OURS, Folder
from lakewarden.planners.formats.directory.metastore import (
    COMMITTED_AT,
    MetastoreLook,
    TableThere,
    compared,
    listed,
    looked,
    table_there,
    values_of,
)
from lakewarden.planners.formats.directory.observing import table_options
from lakewarden.planners.formats.directory.options import DirectoryTableOptions, MetastoreOptions
from lakewarden.planners.metastores import Metastores
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.storage.empty_files import RefusedPlaceError
from lakewarden.planners.triggers import NumCommits

if TYPE_CHECKING:
    from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]


_ATTEMPTS = 3

_T = TypeVar("_T")


class PartitionList:
    """The list. `look` says what is in it: without one a partition has the values that its folders name."""

    def __init__(self, options: MetastoreOptions, location: str) -> None:
        """Prepare the client. Raises PermanentError if it is not installed."""
        self._options = options
        self._location = location
        self._metastores = Metastores(options.place, options.uri, timeout=options.timeout)
        self._look: MetastoreLook | None = None

    def look(self, folders: Mapping[str, Folder]) -> MetastoreLook:
        """Return what is listed of these folders, which are all of the table."""
        self._look = looked(self._options, self._location, folders, None)
        return self._look

    def commit(self, path: str, changed_at: float) -> None:
        """List the partition at a path below the table, as committed up to a change. If it is listed, it is altered.

        Raises RefusedPlaceError if the metastore refuses it, or lists it at another place.
        """
        self._tell(lambda client, there: self._commit(client, there, path, changed_at))

    def drop(self, path: str) -> bool:
        """Take a partition out of the list; return whether it was there, at its folder."""
        return self._tell(lambda client, there: self._drop(client, there, path))

    def require_there(self) -> None:
        """Raise TemporaryError if no metastore answers, and PermanentError if the table there is not the directory."""
        self._tell(lambda *_: None)

    def holds(self, path: str) -> bool:
        """Whether the partition is listed, at its folder."""
        return self._tell(lambda client, there: self._held(client, there, path) is not None)

    def lead(self, path: str, *, source: str, target: str) -> bool:
        """Lead readers of the partition at a path from one folder to another, both by their paths below the table, in
        one act of the metastore. Return whether it leads to the target now. An entry that leads elsewhere, or that is
        missing, stays as it is.
        """
        return self._tell(lambda client, there: self._led(client, there, path, source, target))

    def restore(self, path: str) -> None:
        """Put a partition back into the list, if its folder is there. When it is inactive, it is committed again."""
        if Path(self._location, path).is_dir() and not self.holds(path):
            self.commit(path, 0.0)

    def _tell(self, tell: Callable[[Client, TableThere], _T]) -> _T:
        """Tell the metastore about its table. If it refuses one partition, that is a RefusedPlaceError."""
        from hive_metastore.ttypes import (  # type: ignore  # noqa: PLC0415 - optional, and slow to import
            InvalidObjectException,
            InvalidOperationException,
            MetaException,
        )

        def ask(client: Client) -> _T:
            there = table_there(client, self._options, self._location)
            try:
                return tell(client, there)
            except UnicodeError as strange:
                raise RefusedPlaceError(f"{self._options.place} takes no name that is not UTF-8") from strange
            except (InvalidObjectException, InvalidOperationException, MetaException) as refused:
                reason = shown(getattr(refused, "message", None) or type(refused).__name__)
                raise RefusedPlaceError(f"{self._options.place} refuses the partition: {reason}") from refused

        return self._metastores.asked(ask)

    def _commit(self, client: Client, there: TableThere, path: str, changed_at: float) -> None:
        from hive_metastore.ttypes import (  # noqa: PLC0415 - as above
            AlreadyExistsException,
            NoSuchObjectException,
        )

        values = self._values(there, path)
        for _ in range(_ATTEMPTS):  # another program may add or drop it between two requests
            partition = self._partition(client, values)
            try:
                if partition is None:
                    client.add_partition(self._made(there, path, values, changed_at))
                else:
                    self._require_here(there, partition, path)
                    partition.parameters = {**(partition.parameters or {}), COMMITTED_AT: repr(changed_at)}
                    client.alter_partition(self._options.database, self._options.table, partition)
            except (AlreadyExistsException, NoSuchObjectException):
                continue
            return
        raise TemporaryError(f"{self._options.place}: another program keeps changing the partition {shown(path)}")

    def _held(self, client: Client, there: TableThere, path: str) -> tuple[str, ...] | None:
        """Return the values of a partition that is listed at its folder; None if it is not."""
        values = values_of(path, there.columns)
        for spelling in dict.fromkeys(() if values is None else (values, compared(values, there.columns))):
            partition = self._partition(client, spelling)
            if partition is not None and listed(partition, there, self._location, path).elsewhere is None:
                return spelling
        return None

    def _led(self, client: Client, there: TableThere, path: str, source: str, target: str) -> bool:
        from hive_metastore.ttypes import EnvironmentContext, NoSuchObjectException  # noqa: PLC0415 - as above

        values = values_of(path, there.columns)
        for spelling in dict.fromkeys(() if values is None else (values, compared(values, there.columns))):
            partition = self._partition(client, spelling)
            if partition is None:
                continue
            if listed(partition, there, self._location, target).elsewhere is None:
                return True
            if listed(partition, there, self._location, source).elsewhere is not None:
                return False
            partition.sd.location = f"{there.place}/{target}"
            # the rows are the same, so that the metastore need not look at the files
            context = EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
            names = (self._options.database, self._options.table)
            try:
                client.alter_partition_with_environment_context(*names, partition, context)
            except NoSuchObjectException:
                return False
            return True
        return False

    def _drop(self, client: Client, there: TableThere, path: str) -> bool:
        from hive_metastore.ttypes import NoSuchObjectException  # noqa: PLC0415 - as above

        values = self._held(client, there, path)
        try:
            if values is not None:
                client.drop_partition(self._options.database, self._options.table, list(values), deleteData=False)
        except NoSuchObjectException:
            return False
        return values is not None

    def _values(self, there: TableThere, path: str) -> tuple[str, ...]:
        """Return the values by which the metastore knows a partition, or will."""
        entry = None if self._look is None else self._look.partitions.get(path)
        values = values_of(path, there.columns) if entry is None else entry.values
        if values is None:
            raise RefusedPlaceError(f"{shown(path)} has not the partition columns of {self._options.place}")
        return values

    def _partition(self, client: Client, values: tuple[str, ...]) -> Any | None:
        from hive_metastore.ttypes import NoSuchObjectException  # noqa: PLC0415 - as above

        try:
            return client.get_partition(self._options.database, self._options.table, list(values))
        except NoSuchObjectException:
            return None

    def _made(self, there: TableThere, path: str, values: tuple[str, ...], changed_at: float) -> Any:
        """Return a new partition, with the columns and the serde of its table."""
        from hive_metastore.ttypes import Partition  # noqa: PLC0415 - as above

        storage = copy.deepcopy(there.table.sd)
        storage.location = f"{there.place}/{path}"
        return Partition(
            values=list(values),
            dbName=self._options.database,
            tableName=self._options.table,
            createTime=int(time.time()),
            lastAccessTime=0,
            sd=storage,
            parameters={COMMITTED_AT: repr(changed_at)},
        )

    def _require_here(self, there: TableThere, partition: Any, path: str) -> None:
        elsewhere = listed(partition, there, self._location, path).elsewhere
        if elsewhere is not None:
            raise RefusedPlaceError(f"{self._options.place} lists {shown(path)} at another place, {shown(elsewhere)}")


def partition_list_of(table: Table) -> PartitionList | None:
    """Return the list of a directory's partitions; None if no metastore is set."""
    options = table_options(table).metastore
    return None if options is None else PartitionList(options, table.location)


def relist_of(table: Table) -> Callable[[str], None]:
    """Return what puts a partition back into the list. Without a metastore it does nothing."""

    def relist(path: str) -> None:
        if (there := partition_list_of(table)) is not None:
            there.restore(path)

    return relist


# The directory of a run, as its format knows it.


def table_of(assignment: Assignment) -> Table:
    """Return the table that a run is about, with the one policy that it carries out."""
    options = DIRECTORY.services[assignment.service].model_validate(dict(assignment.service_options))
    return Table(
        id=assignment.table,
        format=assignment.format,
        location=canonical_location(assignment.location),
        options=DirectoryTableOptions.model_validate(dict(assignment.table_options)),
        policies={assignment.service: Policy(trigger=NumCommits(at_least=1), options=options)},
    )


# The paths in the journals of acts. A journal lies where others may write: it names nothing outside of its table.

_UP = frozenset({"", ".", ".."})


def _is_below(path: str) -> str:
    levels = path.split("/")
    if not _UP.isdisjoint(levels) or levels[0] == OURS or "\0" in path:
        raise ValueError("it is not a partition path")
    return path


def _is_one_level(name: str) -> str:
    if name in _UP or "/" in name or "\0" in name:
        raise ValueError("it is not a file name")
    return name


PartitionPath = Annotated[str, AfterValidator(_is_below)]
"""The path of a partition below its table, and not in the folder of the acts."""

FileName = Annotated[str, AfterValidator(_is_one_level)]
"""The name of a file. It leads to no other folder: a store knows no `..`, and a disk and some gateways do."""
