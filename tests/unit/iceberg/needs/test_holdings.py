"""Files are tallied by partition, and what is told by the tallies is what the files themselves tell."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.backlog.memo import Memo
from lakewarden.planners.formats.iceberg.metadata.tallies import Tallies
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from tests.support.iceberg_look import look
from tests.support.iceberg_table import EQUALITY_DELETES, POSITION_DELETES, File, IcebergTable

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
                "other spec",
            ]
        ),
        PARTITIONS,
        SIZES,
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=14,
)


def take(table: IcebergTable, step: str, p: int | None, size: int, number: int) -> None:
    """Let something happen to the table, if it makes sense now."""
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
        case "expire" if len(table.snapshots) > 3:
            table.expire(min(table.snapshots, key=lambda one: table.snapshots[one].line["sequence-number"]))
        case "other spec" if len(table.specs) == 1:
            table.specs.append({"spec-id": 1, "fields": [{**table.specs[0]["fields"][0], "name": "q"}]})
            table.commit("append", add=files, spec=1)
        case _:
            pass


def _deletes_of(table: IcebergTable, file: File) -> File:
    return table.file(file.p, content=POSITION_DELETES, bounds_name=file.path, records=9)


def _spec_of(table: IcebergTable, file: File) -> int:
    """Return the spec in which a file lies: a position delete lies in that of its file."""
    assert table.current is not None
    manifests = table.snapshots[table.current].manifests
    return next(one.spec for one in manifests if any(entry.file.path == file.path for entry in one.entries))


def told(view: TableView) -> object:
    """Return what a compaction goes by."""
    service = Service.COMPACTION
    return view.backlogs.get(service), view.at_rest.get(service), view.notes.get(service), view.writers, view.faults


@example(steps=[("other spec", 0, MIB, 1), ("deletes", 0, MIB, 1)], looks=set())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, looks=st.sets(st.integers(0, 13)))
def test_tallies_tell_of_files_what_the_files_tell(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int | None, int, int]], looks: set[int]
) -> None:
    """Whatever was committed, looked at each time or at the end. A clustering asks for the files themselves."""
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
    """Which files share one is not told by tallies, as little as by the planner, which reads in parallel."""
    table = IcebergTable(tmp_path / "trips")
    table.append(*(table.file(0, size=300 * MIB) for _ in range(100)))
    backlogs = [
        look(table, *services).view.backlogs[Service.COMPACTION]
        for services in ((Service.COMPACTION,), (Service.COMPACTION, Service.CLUSTERING))
    ]
    assert backlogs[0] == backlogs[1]
    assert (backlogs[0].files, backlogs[0].bytes, backlogs[0].file_groups) == (100, 30_000 * MIB, 3)


def test_nothing_is_tallied_again_but_what_a_commit_changed(tmp_path: Path) -> None:
    """Of a table of many manifests one bundle, and the one that is made of it."""
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
