"""Commits a rewrite as Iceberg does (`SnapshotProducer.commit`), with a check of the snapshot in between.

Each try has three acts. First Iceberg validates the change against the current table, and writes the snapshot's
manifests, which are not visible yet. Then Lakewarden checks that snapshot. Then the table's pointer is exchanged, on
the condition that it has not moved since the first act. So exactly the checked snapshot is committed, and no other
commit comes between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from py4j.protocol import Py4JJavaError

from lakewarden.executors import points
from lakewarden.executors.contract import Assignment
from lakewarden.executors.points import Point
from lakewarden.executors.programs.iceberg.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, waits
from lakewarden.planners.formats.iceberg.metadata.timeline import MORE, PART, RUN_ID, SERVICE
from lakewarden.planners.model.errors import UnknownError, YieldError
from lakewarden.planners.model.instant import Step

# The commit of an expiry to a REST catalog, on condition that every branch and tag stands where it was looked at.
#
# Catalogs of databases, folders and metastores exchange the pointer of a table on condition of its value. A REST
# catalog applies changes to the table as it is by then, if the requirements of the request hold. Iceberg's client sends
# such requirements only with changes that add something. With `RemoveSnapshots` it requires the uuid of the table and
# nothing else (`UpdateRequirements`, 1.11.0). Then a rollback of main to a snapshot that expires at the same moment
# would end with a table without main.

_REST = "org.apache.iceberg.rest.RESTTableOperations"
_ANSWER = "org.apache.iceberg.rest.responses.LoadTableResponse"


def applies_changes(table: OpenTable) -> bool:
    """Whether the catalog applies changes to the table as it is by then. Every other catalog exchanges a pointer."""
    return str(table.java.operations().getClass().getName()) == _REST


def commit_of(table: OpenTable, base: Any, updated: Any) -> Callable[[], None]:
    """Return the commit of `updated`, which was built from `base`. Nothing is sent before it is called. It raises
    `CommitFailedException` if a branch or a tag of `base` has moved, or if the pointer has.
    """
    operations = table.java.operations()
    if not applies_changes(table):
        return lambda: operations.commit(base, updated)
    iceberg = table.jvm.org.apache.iceberg
    requirements = table.jvm.java.util.ArrayList(iceberg.UpdateRequirements.forUpdateTable(base, updated.changes()))
    for name, ref in dict(base.refs()).items():
        requirements.add(iceberg.UpdateRequirement.AssertRefSnapshotID(name, ref.snapshotId()))
    request = iceberg.rest.requests.UpdateTableRequest(requirements, updated.changes())
    answer = table.jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_ANSWER)
    handler = iceberg.rest.ErrorHandlers.tableCommitHandler()
    client, path = _private(operations, "client"), _private(operations, "path")
    headers = _private(operations, "mutationHeaders").get()
    return lambda: client.post(path, request, answer, headers, handler)


def _private(operations: Any, name: str) -> Any:
    """Return the value of a field. The version of the bundle is pinned (`on_spark.py`)."""
    field = operations.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(operations)


_WRITERS_ARE_BUSY = timedelta(seconds=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposed:
    """A snapshot that is written and not committed, with its id and the id of its parent."""

    id: int
    parent: int | None
    manifest_list: str
    java: Any


Look = Callable[[Proposed], None]
"""Checks a snapshot before its commit. If it must not be committed, raises the error with which the run ends."""


Properties = Callable[[int, Mapping[str, str]], Mapping[str, str]]
"""Returns the properties of the table that are set together with a snapshot, from the snapshot's id and the present
properties."""


def exchange(table: OpenTable, update: Any, look: Look | None = None, *, properties: Properties | None = None) -> None:
    """Commit an `org.apache.iceberg.RewriteFiles` together with its `properties`, as often as the table's
    `commit.retry.*` allow.

    Raises YieldError if other clients committed during each attempt, and UnknownError if it is not known whether it was
    committed. After every other error it was not, and its manifests are deleted. The caller deletes the files that it
    would have added.
    """
    lists: list[str] = []
    try:
        committed = _committed(table, update, look, properties, lists)
    except UnknownError:
        raise
    except Exception:
        with on_the_way_out("delete the manifests of a snapshot that was not committed"):
            update.cleanAll()
        raise
    with on_the_way_out("delete the manifests of earlier tries"):
        io = table.java.io()
        update.cleanUncommitted(table.jvm.java.util.HashSet(committed.java.allManifests(io)))
        for superseded in lists[:-1]:
            io.deleteFile(superseded)


def _committed(
    table: OpenTable, update: Any, look: Look | None, properties: Properties | None, lists: list[str]
) -> Proposed:
    """Return the committed snapshot. The manifest lists of all tries are added to `lists`."""
    for wait in waits(dict(table.java.properties())):
        time.sleep(wait)
        with translated(Step.EXECUTE):
            proposed = _proposed(update)
            lists.append(proposed.manifest_list)
            base = table.java.operations().current()
            head = base.currentSnapshot()
            if (None if head is None else head.snapshotId()) != proposed.parent:
                continue
        if look is not None:
            look(proposed)
        points.reach(Point.PROPOSED, run=table.assignment.run, service=table.assignment.service)
        if _moved_to(table, base, proposed, properties):
            return proposed
    raise YieldError(
        f"the table moved on during each of {len(lists)} attempts to commit: raise its commit.retry.num-retries if it "
        "is so each time",
        delay=_WRITERS_ARE_BUSY,
    )


def _proposed(update: Any) -> Proposed:
    java = update.apply()
    parent = java.parentId()
    return Proposed(
        id=int(java.snapshotId()),
        parent=None if parent is None else int(parent),
        manifest_list=str(java.manifestListLocation()),
        java=java,
    )


def _moved_to(table: OpenTable, base: Any, proposed: Proposed, properties: Properties | None) -> bool:
    with translated(Step.EXECUTE):
        builder = table.jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
        builder = builder.setBranchSnapshot(proposed.java, MAIN)
        new = {} if properties is None else properties(proposed.id, dict(base.properties()))
        if new:
            builder = builder.setProperties(table.java_map(dict(new)))
        updated = builder.build().withUUID()
    return moved(table, base, updated)


def moved(table: OpenTable, base: Any, updated: Any, *, requires_names: bool = False) -> bool:
    """Move the table's pointer from the metadata `base` to `updated`. Return False if it is not at `base` any more.

    With `requires_names` it returns False, too, if a branch or a tag does not stand where it stands in `base`. Raises
    UnknownError if it is not known whether it was moved. After every other error it was not.
    """
    with translated(Step.EXECUTE):
        operations = table.java.operations()
        commit = commit_of(table, base, updated) if requires_names else lambda: operations.commit(base, updated)
    with translated(Step.COMMIT):
        try:
            commit()
        except Py4JJavaError as error:
            if not str(error.java_exception.getClass().getName()).endswith(".CommitFailedException"):
                raise
            return False
    return True


# The entries that Lakewarden adds to a snapshot's summary. They name the run.


def signature(assignment: Assignment, *, more: bool = False) -> dict[str, str]:
    """Return the entries for a commit of a run. `more`: the run commits more after it."""
    signed = {RUN_ID: str(assignment.run), SERVICE: assignment.service.value}
    return signed | {PART: MORE} if more else signed


def signed(action: Any, assignment: Assignment) -> Any:
    """Add the entries of `signature` to the commits of an Iceberg action, and return the action."""
    for key, value in signature(assignment).items():
        action.snapshotProperty(key, value)
    return action
