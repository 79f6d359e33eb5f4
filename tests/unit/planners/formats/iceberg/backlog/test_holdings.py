"""Files are tallied by partition. The tallies say the same as the files themselves."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.backlog.memo import Memo
from lakewarden.planners.formats.iceberg.metadata.files import Tallies
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from tests.support.iceberg.iceberg_look import look
from tests.support.iceberg.iceberg_table import DATA, EQUALITY_DELETES, POSITION_DELETES, File, IcebergTable

MIB = 2**20
PARTITIONS = st.sampled_from([0, 1, 2, None])
SIZES = st.sampled_from([MIB, 4 * MIB, 9 * MIB])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "append",
                "append",
                "append",
                "update",
                "deletes",
                "equality",
                "rewrite",
                "manifests",
                "expire",
                "expire any",
                "other spec",
                "merge",
                "roll back",
                "go on",
                "branch",
                "publish",
                "pick",
            ]
        ),
        PARTITIONS,
        SIZES,
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=24,
)


def take(table: IcebergTable, step: str, p: int | None, size: int, number: int) -> None:
    """Apply a change to the table, if it is possible now."""
    files = [table.file(p, size=size) for _ in range(number)]
    own = [file for file in table.live() if file.p == p]
    match step:
        case "append":
            table.append(*files)
        case "update" if own:
            table.commit("overwrite", add=files[:1], remove=own[:1])
        case "deletes" if own:
            table.commit("delete", add=[_deletes_of(table, own[0])], spec=_spec_of(table, own[0]))
        case "equality":
            table.commit("delete", add=[table.file(p, content=EQUALITY_DELETES)])
        case "rewrite" if own:
            table.rewrite(p=p)
        case "manifests" if table.live():
            table.rewrite_manifests()
        case "expire" if len(table.snapshots) > 3 and (others := table.snapshots.keys() - _named(table)):
            table.expire(min(others, key=lambda one: table.snapshots[one].line["sequence-number"]))
        case "expire any" if others := table.snapshots.keys() - _named(table):
            table.expire(sorted(others)[number % len(others)])
        case "merge":
            table.commit("append", add=files, merging=True)
        case "roll back" if table.current is not None and len(table.snapshots) > 1:
            table.roll_back(_parent(table, table.current) or table.current)
        case "go on" if table.snapshots:
            table.roll_back(max(table.snapshots, key=lambda one: table.snapshots[one].line["timestamp-ms"]))
        case "branch" if table.snapshots:
            table.commit("append", add=files, branch="audit")
        case "publish" if "audit" in table.refs:
            table.roll_back(table.refs["audit"]["snapshot-id"])
        case "pick" if "audit" in table.refs:
            of_branch = table.live(table.refs["audit"]["snapshot-id"])
            known = {file.path for file in table.live()}
            table.commit("append", add=[one for one in of_branch if one.path not in known and one.content == DATA])
        case "other spec" if len(table.specs) == 1:
            table.specs.append({"spec-id": 1, "fields": [{**table.specs[0]["fields"][0], "name": "q"}]})
            table.commit("append", add=files, spec=1)
        case _:
            pass


def _named(table: IcebergTable) -> set[int]:
    """Return the snapshots for which a branch stands."""
    return {ref["snapshot-id"] for ref in table.refs.values()}


def _parent(table: IcebergTable, snapshot: int) -> int | None:
    """Return the snapshot before one, unless it has expired."""
    parent: int | None = table.snapshots[snapshot].line.get("parent-snapshot-id")
    return parent if parent in table.snapshots else None


def _deletes_of(table: IcebergTable, file: File) -> File:
    return table.file(file.p, content=POSITION_DELETES, bounds_name=file.path, records=9)


def _spec_of(table: IcebergTable, file: File) -> int:
    """Return the spec of a file. A position delete has the spec of its data file."""
    assert table.current is not None
    manifests = table.snapshots[table.current].manifests
    return next(one.spec for one in manifests if any(entry.file.path == file.path for entry in one.entries))


def told(view: TableView) -> object:
    """Return the numbers that a compaction is decided by."""
    service = Service.COMPACTION
    return view.backlogs.get(service), view.at_rest.get(service), view.notes.get(service), view.writers, view.faults


@example(steps=[("other spec", 0, MIB, 1), ("deletes", 0, MIB, 1)], looks=set())
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, looks=st.sets(st.integers(0, 23)))
def test_tallies_tell_of_files_what_the_files_tell(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int | None, int, int]], looks: set[int]
) -> None:
    """This holds for all commits, observed one by one or at the end: for merges, rollbacks, branches that are
    published, commits that are picked, and expiries in any order. A clustering reads the files themselves.
    """
    clock = ManualClock()
    properties = {"write.target-file-size-bytes": str(4 * MIB)}
    table = IcebergTable(tmp_path_factory.mktemp("t") / "trips", clock=clock, properties=properties)
    seen = None
    for at, step in enumerate(steps):
        take(table, *step)
        clock.advance(timedelta(seconds=40))
        seen = look(table, previous=seen) if at in looks else seen
    exact = told(look(table, Service.COMPACTION, Service.CLUSTERING).view)
    assert told(look(table).view) == exact
    assert told(look(table, previous=seen).view) == exact


def test_where_a_partition_has_several_groups_their_files_are_counted_all_the_same(tmp_path: Path) -> None:
    """Tallies do not show which files share a group. The planner does not fix it either, for it reads in parallel."""
    table = IcebergTable(tmp_path / "trips")
    table.append(*(table.file(0, size=300 * MIB) for _ in range(100)))
    backlogs = [
        look(table, *services).view.backlogs[Service.COMPACTION]
        for services in ((Service.COMPACTION,), (Service.COMPACTION, Service.CLUSTERING))
    ]
    assert backlogs[0] == backlogs[1]
    assert (backlogs[0].files, backlogs[0].bytes, backlogs[0].file_groups) == (100, 30_000 * MIB, 3)


def test_nothing_is_tallied_again_but_what_a_commit_changed(tmp_path: Path) -> None:
    """Of a table of many manifests only one bundle is tallied again, and the bundle that is made from it."""
    table = IcebergTable(tmp_path / "trips")
    for p in range(60):
        table.append(table.file(p))
    first = look(table)
    table.append()
    second = look(table, previous=first)
    one, other = tallies(first), tallies(second)
    assert len(one.small) > 8
    assert sum(other.small[at] is not one.small.get(at) for at in other.small) == 1
    assert sum(other.large[at] is not one.large.get(at) for at in other.large) == 1


def tallies(observation: Observation) -> Tallies:
    """Return what an observation keeps."""
    assert isinstance(observation.memo, Memo)
    return observation.memo.tallies
