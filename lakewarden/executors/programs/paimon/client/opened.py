"""A table that is opened for one run: Paimon's own object writes its files, and the daemon's reader reads it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from lakewarden.executors.contract import Assignment, Program, Steps
from lakewarden.executors.programs import java_errors
from lakewarden.executors.programs.bracket import Bracket
from lakewarden.planners.formats.paimon.backlog.blockers import blockers
from lakewarden.planners.formats.paimon.backlog.manifests_read import Memo
from lakewarden.planners.formats.paimon.catalogs.places import Places
from lakewarden.planners.formats.paimon.catalogs.settings import (
    Catalog,
    HiveCatalog,
    JdbcCatalog,
    commits_under_lock,
    core_options,
)
from lakewarden.planners.formats.paimon.format import PAIMON
from lakewarden.planners.formats.paimon.metadata.files import WAITS, VanishedError, content_of
from lakewarden.planners.formats.paimon.metadata.heads import Heads, commit_user, require_table
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot, parse_snapshot
from lakewarden.planners.formats.paimon.observing import Look, look
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.formats.shared_folder import require_own_folder
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, NotYetError, PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.ports import ConditionalWrites, Storage
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.inside import ScatteredStorage
from lakewarden.planners.storage.locations import canonical_location, named_in_catalog
from lakewarden.planners.triggers import NumCommits

# What Paimon's exceptions mean to the daemon. They are translated only here.
#
# Paimon's client publishes nothing: the snapshots that it makes appear in a folder of the worker, and Lakewarden gives
# them their place in the table. So after each exception of the client certainly nothing was committed.

_CONFLICTS = ("conflicts detected", "Give up committing", "commit conflicts")
_A_WRITER_WAS_HERE = timedelta(minutes=1)
_NO_SPACE = ("No space left on device", timedelta(minutes=5))
_NOTHING_TO_SCAN = "EndOfScanException"
_MISSING_FILE = ("FileNotFoundException", "NoSuchFileException")
_FOR_A_PERSON = (
    "java.lang.NoSuchMethodError",
    "java.lang.ClassNotFoundException",
    "java.lang.NoClassDefFoundError",
    "java.lang.UnsupportedOperationException",
    "java.nio.file.AccessDeniedException",
    "Could not find any factory for identifier",
)


def translated(step: Step) -> AbstractContextManager[None]:
    """Run Java calls of one step. Their exceptions become a TemporaryError, PermanentError or UnknownError."""
    return java_errors.translated(step, meaning)


def on_the_way_out(what: str) -> AbstractContextManager[None]:
    """Run Java calls that free or release something. Their failure is logged, and does not hide a run's outcome."""
    return java_errors.on_the_way_out(what, meaning)


def meaning(causes: Sequence[str], __step: Step) -> LakewardenError:
    """Return the error for a chain of Java exceptions, the outermost first."""
    everything = "\n".join(causes)
    message = java_errors.for_people(causes)
    if any(text in everything for text in _CONFLICTS):
        return YieldError(f"another program has changed files that were compacted: {message}", delay=_A_WRITER_WAS_HERE)
    if _NO_SPACE[0] in everything:
        return TemporaryError(f"a disk is full, free some space (the worker's scratch?): {message}", delay=_NO_SPACE[1])
    if _NOTHING_TO_SCAN in everything:
        return NotYetError(f"Paimon finds no small file: {message}")
    if any(name in everything for name in _MISSING_FILE):
        return TemporaryError(f"a file is missing, an expiry may have been faster: {message}", delay=_A_WRITER_WAS_HERE)
    if any(text in everything for text in _FOR_A_PERSON):
        return PermanentError(message)
    return TemporaryError(message)


# The table as the core of Paimon opens it: by its folder, or through the catalog of its writers.


@contextlib.contextmanager
def java_table(session: Any, table: Table, folder: str) -> Iterator[Any]:
    """Yield the `FileStoreTable` with the newest schema. `table` is as it is registered, and lies in `folder`.

    If the writers commit under the lock of a catalog, the table is opened through that catalog, which has the lock.
    Raises TemporaryError if the core finds it elsewhere.
    """
    paimon = session.sparkContext._jvm.org.apache.paimon  # noqa: SLF001 - pyspark's own access to py4j
    settings = table.catalog
    if not isinstance(settings, HiveCatalog | JdbcCatalog) or not commits_under_lock(settings, folder):
        with translated(Step.PLAN):
            java = paimon.table.FileStoreTableFactory.create(paimon.fs.local.LocalFileIO(), paimon.fs.Path(folder))
        yield java
        return
    _, identifier = named_in_catalog(table.location)
    with translated(Step.PLAN):
        catalog = _catalog(session, paimon, settings)
    try:
        with translated(Step.PLAN):
            java = catalog.getTable(paimon.catalog.Identifier.create(*identifier.split(".")))
            place = canonical_location(str(java.location().toString()))
        if place != folder:
            raise TemporaryError(f"the catalog moves the table: it was in {folder}, and is in {place}")
        yield java
    finally:
        with on_the_way_out("close the catalog"):
            catalog.close()


def _catalog(session: Any, paimon: Any, settings: HiveCatalog | JdbcCatalog) -> Any:
    options = paimon.options.Options()
    for key, value in core_options(settings).items():
        options.set(key, value)
    context = session.sparkContext
    hadoop = context._jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())  # noqa: SLF001
    hadoop.set("fs.s3.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")  # a metastore may say s3:// for s3a://
    return paimon.catalog.CatalogFactory.createCatalog(paimon.catalog.CatalogContext.create(options, hadoop))


_CATALOG: TypeAdapter[Any] = TypeAdapter(Catalog)
_DENSE_STATISTICS = "metadata.stats-dense-store"

_Options = TypeVar("_Options", bound=Settings)


@dataclass(kw_only=True, slots=True)
class OpenTable:
    """The open table that every program works with. `java` is an `org.apache.paimon.table.FileStoreTable` with the
    schema that was the newest. `scratch` is a folder of the run on a disk of the worker.
    """

    spark: Any
    java: Any
    assignment: Assignment
    table: Table
    storage: Storage
    clock: Clock
    scratch: Path
    _remembered: Memo = field(default_factory=Memo)
    _heads: Heads = field(default_factory=Heads)

    @property
    def jvm(self) -> Any:
        """Return py4j's view of the JVM."""
        return self.spark.sparkContext._jvm  # noqa: SLF001 - pyspark's own access to py4j

    @property
    def paimon(self) -> Any:
        """Return the package `org.apache.paimon` of the JVM."""
        return self.jvm.org.apache.paimon

    @property
    def user(self) -> str:
        """Return the commit user of the run."""
        return commit_user(self.assignment.run, of_manifests=self.assignment.service is Service.ARCHIVE)

    def look(self, *, most: int | None = None, partitions: bool = False) -> Look:
        """Return the table as it is now, by the daemon's own reader, with so many snapshots at `most`. With
        `partitions` also when rows came into them. Raises TemporaryError if it cannot be read whole for a second.
        """
        newest_look = self._look(most, partitions=partitions)
        for wait in WAITS:
            if not newest_look.faults:
                return newest_look
            time.sleep(wait)
            newest_look = self._look(most, partitions=partitions)
        if newest_look.faults:
            raise TemporaryError(newest_look.faults[0])
        return newest_look

    def _look(self, most: int | None, *, partitions: bool) -> Look:
        location = self.table.location
        head = self._heads.of(location, self.storage)
        newest = None if head is None else head.id
        now = self.clock.now()
        newest_look = look(
            location, self.storage, self._remembered, head=newest, now=now, most=most, partitions=partitions
        )
        self._remembered = newest_look.memo
        return newest_look

    def free_look(
        self, kind: type[PermanentError | YieldError], *, most: int | None = None, partitions: bool = False
    ) -> Look:
        """Look as `look` does. Raises `kind` if something blocks the run's service."""
        newest_look = self.look(most=most, partitions=partitions)
        for blocker in blockers(self.table, newest_look.facts):
            if blocker.concerns(self.assignment.service):
                raise kind(blocker.reason)
        return newest_look

    def snapshot(self, number: int) -> Snapshot | None:
        """Return a snapshot as its file says now; None if there is none."""
        file = f"{self.table.location}/snapshot/snapshot-{number}"
        try:
            return parse_snapshot(content_of(file, self.storage), file=file, named=number)
        except VanishedError:
            return None

    def require_jvm(self) -> None:
        """Raise UnknownError if the JVM does not answer: the daemon may have settled the run by its death."""
        with translated(Step.COMMIT):
            self.jvm.java.lang.System.currentTimeMillis()

    def conditions(self) -> ConditionalWrites:
        """Return the conditional writes of the table's store. Raises PermanentError if it has none."""
        conditional_writes = (
            self.storage.conditions(self.table.location) if isinstance(self.storage, ScatteredStorage) else None
        )
        if conditional_writes is None:
            raise PermanentError(f"nothing is written to {self.table.location}: its store has no conditional writes")
        return conditional_writes

    def compacting(self) -> Any:
        """Return the table with the options under which its writers compact. A compaction that a writer may put off
        for some commits (`lookup-compact`) is not put off. A lookup keeps all rows of a key in memory: Paimon 1.3.1
        loses the oldest one if it puts them on disk (paimon#9279).

        Statistics of files keep a place for each column, as all releases read them, unless the table says otherwise.
        """
        options = self.jvm.java.util.HashMap()
        options.put("write-only", "false")
        options.put("lookup-compact", "radical")
        options.put("lookup.merge-records-threshold", str(2**31 - 1))
        if not self.java.schema().options().containsKey(_DENSE_STATISTICS):
            options.put(_DENSE_STATISTICS, "false")
        return self.java.copy(options)


def _policies(assignment: Assignment) -> dict[Service, Policy]:
    """Return the one policy that the run carries out."""
    options = PAIMON.services[assignment.service].model_validate(dict(assignment.service_options))
    return {assignment.service: Policy(trigger=NumCommits(at_least=1), options=options)}


@contextlib.contextmanager
def open_table(session: Any, assignment: Assignment, storage: Storage, *, clock: Clock) -> Iterator[OpenTable]:
    """Open the table of a run, by its folder or through its catalog. Raises PermanentError if there is none, or
    if a table of another format lies in its folder, and TemporaryError if the catalog does not answer.
    """
    named = Table(
        id=assignment.table,
        format=assignment.format,
        location=canonical_location(assignment.location),
        catalog=None if assignment.catalog is None else _CATALOG.validate_python(dict(assignment.catalog)),
        options=PaimonTableOptions.model_validate(dict(assignment.table_options)),
        policies=_policies(assignment),
    )
    table = Places().placed(named)
    require_table(table.location, storage)
    require_own_folder(assignment.format, [table.location], storage)
    scratch = Path(tempfile.mkdtemp(prefix="paimon-"))
    try:
        with java_table(session, named, table.location) as java:
            yield OpenTable(
                spark=session,
                java=java,
                assignment=assignment,
                table=table,
                storage=storage,
                clock=clock,
                scratch=scratch,
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def program(
    steps: Callable[[OpenTable, _Options], Steps], options: type[_Options], *, deletes: str | None = None
) -> Callable[..., Program]:
    """Return the program that takes these steps on an open table. If it `deletes` files, an error of the disk is a
    TemporaryError.
    """

    @contextlib.contextmanager
    def opened(session: Any, assignment: Assignment, storage: Storage, clock: Clock) -> Iterator[Steps]:
        given = options.model_validate(dict(assignment.service_options))
        with open_table(session, assignment, storage, clock=clock) as table:
            try:
                yield steps(table, given)
            except OSError as error:
                if deletes is None:
                    raise
                raise TemporaryError(f"{deletes} of {table.table.location} cannot be deleted now: {error}") from error

    return partial(Bracket, opened=opened)
