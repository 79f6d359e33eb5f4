"""How a rewrite is committed: as Iceberg does it (`SnapshotProducer.commit`), with a look at what it has made.

Each try has three acts. Iceberg validates the change against the table as it is now, and writes the snapshot's
manifests, which nobody sees. Then we look at that snapshot. Then the table's pointer is exchanged on the condition that
it is still where the first act found it: what becomes the table is what was looked at, and nothing came between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError

from lakewarden.executors.contract import Step
from lakewarden.executors.faultpoints import FAULTS, Point
from lakewarden.executors.programs.iceberg.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN
from lakewarden.planners.formats.iceberg.metadata.retries import pauses
from lakewarden.planners.model.errors import TemporaryError, UnknownError


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposed:
    """A snapshot that is written and not committed, by the id that it has and that of the snapshot that it follows."""

    id: int
    parent: int | None
    manifest_list: str
    java: Any


Look = Callable[[Proposed], None]
"""Looks at a snapshot before it becomes the table's. Raises what the run is to end with, where it must not."""


def exchange(table: OpenTable, update: Any, look: Look | None = None) -> None:
    """Commit an `org.apache.iceberg.RewriteFiles`, as often as the table's `commit.retry.*` allow.

    Raises UnknownError where nobody knows whether it was committed; after every other error it was not, and nothing is
    left of its manifests. What it would have added is for the caller to delete.
    """
    lists: list[str] = []
    try:
        committed = _committed(table, update, look, lists)
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


def _committed(table: OpenTable, update: Any, look: Look | None, lists: list[str]) -> Proposed:
    """Return what was committed; the manifest lists of all tries are put into `lists`."""
    for pause in _waits(table):
        time.sleep(pause)
        with translated(Step.EXECUTE):
            proposed = _proposed(update)
            lists.append(proposed.manifest_list)
            base = table.java.operations().current()
            head = base.currentSnapshot()
            if (None if head is None else head.snapshotId()) != proposed.parent:
                continue
        if look is not None:
            look(proposed)
        FAULTS.reach(Point.PROPOSED, run=table.assignment.run, service=table.assignment.service)
        if _moved_to(table, base, proposed):
            return proposed
    raise TemporaryError(f"the table moved on during all of {len(lists)} attempts to commit")


def _waits(table: OpenTable) -> Iterator[float]:
    """Yield the seconds to wait before each try."""
    yield 0
    yield from pauses(dict(table.java.properties()))


def _proposed(update: Any) -> Proposed:
    java = update.apply()
    parent = java.parentId()
    return Proposed(
        id=int(java.snapshotId()),
        parent=None if parent is None else int(parent),
        manifest_list=str(java.manifestListLocation()),
        java=java,
    )


def _moved_to(table: OpenTable, base: Any, proposed: Proposed) -> bool:
    """Exchange the table's pointer; False where it is not that of `base` any more."""
    with translated(Step.COMMIT):
        builder = table.jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
        updated = builder.setBranchSnapshot(proposed.java, MAIN).build().withUUID()
        try:
            table.java.operations().commit(base, updated)
        except Py4JJavaError as error:
            if not str(error.java_exception.getClass().getName()).endswith(".CommitFailedException"):
                raise
            return False
    return True
