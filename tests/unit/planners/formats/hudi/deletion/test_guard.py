"""Before a clean deletes, its plan is compared with everything that still needs files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.deletion.guard import NeededFiles, clean_overlaps, overlaps, partitions_in_need
from lakewarden.planners.formats.hudi.metadata.plans import DataFile, HudiPlan
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import PlanSize
from lakewarden.planners.storage import LocalStorage, storage_for
from tests.support.hudi.hudi_look import made
from tests.support.hudi.hudi_table import HudiTable

PARTITIONS = st.sampled_from(["", "p0", "p1", "2026/01", "2026/01/02", "2026/011"])
FILES = st.frozensets(st.builds(DataFile, PARTITIONS, st.sampled_from(["a.parquet", "b.parquet", ".a.log.1"])))
BASE, LOG = "a-0_0-1-2_20260101000000000.parquet", ".a-0_20260101000000000.log.1_0-1-2"


def clean(files: frozenset[DataFile] = frozenset(), *partitions: str) -> HudiPlan:
    size = PlanSize(file_groups=None, bytes=None)
    return HudiPlan(files=files, partitions=frozenset(partitions), size=size)


@given(to_delete=FILES, needed=FILES)
def test_exactly_the_files_that_both_name_overlap(to_delete: frozenset[DataFile], needed: frozenset[DataFile]) -> None:
    """Partition and name together identify a file. No overlap is missed, and none is invented."""
    found = overlaps(clean(to_delete), [NeededFiles(by="compaction 1", files=needed)])
    assert {overlap.file for overlap in found} == to_delete & needed


@given(partition=PARTITIONS, needed=FILES)
def test_a_partition_is_deleted_with_all_that_lies_below_it(partition: str, needed: frozenset[DataFile]) -> None:
    """Deleting a whole partition overlaps with every needed file in its folder, and with no other."""
    below = {file for file in needed if f"{file.partition}/".startswith(f"{partition}/") or not partition}
    found = overlaps(clean(frozenset(), partition), [NeededFiles(by="savepoint 1", files=needed)])
    assert {overlap.file for overlap in found} == below


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    return made(tmp_path, version=request.param)


def found(table: HudiTable, instant: str) -> list[str]:
    location = str(table.folder)
    return [overlap.reason for overlap in clean_overlaps(location, storage_for(location), instant=instant)]


def test_a_clean_of_files_that_are_not_needed_passes(table: HudiTable) -> None:
    """Plans of other files, and completed plans, hold nothing back."""
    done = table.plan_compaction(files={"p0": (BASE, LOG)})
    table.start(done, "compaction")
    table.complete(done, "compaction")
    table.plan_compaction(files={"p1": (BASE, LOG)})
    assert found(table, table.plan_clean(files={"p0": (BASE, LOG)})) == []


def test_the_inputs_of_a_pending_compaction_are_kept(table: HudiTable) -> None:
    """Its base file and its log files are kept, whether its execution was begun or not."""
    plan = table.plan_compaction(files={"p0": (BASE, LOG)})
    instant = table.plan_clean(files={"p0": (BASE, LOG, "other.parquet")})
    table.start(plan, "compaction")
    assert found(table, instant) == [f"compaction {plan} needs it"] * 2


def test_savepointed_files_are_kept(table: HudiTable) -> None:
    """They are also kept from the deletion of their whole partition."""
    write = table.begin_write()
    table.commit_write(write)
    table.savepoint(write, {"p0": (BASE,)})
    assert found(table, table.plan_clean(files={"p0": (BASE,)})) == [f"savepoint {write} needs it"]
    whole = found(table, table.plan_clean(partitions=("p0",)))
    assert whole == [f"savepoint {write} needs it, and its partition would be deleted"]


@pytest.mark.parametrize("broken", ["half a plan", "an empty plan", "no plan", "a savepoint in the making"])
def test_what_cannot_be_read_whole_lets_nothing_be_deleted(table: HudiTable, broken: str) -> None:
    """Its needs are not known."""
    plan = table.plan_compaction(files={"p0": (BASE, LOG)})
    instant = table.plan_clean(files={"p9": (BASE,)})
    name = f"{plan}.compaction.requested"
    match broken:
        case "half a plan":
            table.put(name, (table.timeline / name).read_bytes()[:-9])
        case "an empty plan":
            table.put(name)
        case "no plan":
            table.start(plan, "compaction")
            table.remove(name)
        case _:
            table.put(f"{plan}.savepoint.inflight")
    with pytest.raises(TemporaryError):
        found(table, instant)


def test_a_partition_that_is_needed_is_named_with_the_reason(table: HudiTable) -> None:
    """Before a partition is deleted whole, the reason is named: a pending plan reads in it, or a savepoint holds it or
    a folder below it.
    """
    write = table.begin_write()
    table.commit_write(write)
    table.savepoint(write, {"2026/01": (BASE,)})
    plan = table.plan_compaction(files={"p0": (BASE, LOG)})
    location = str(table.folder)

    held = partitions_in_need(location, LocalStorage(), ["p0", "p1", "2026/01", "2026/02"])

    assert held == {
        "p0": f"compaction {plan} needs it, and its partition would be deleted",
        "2026/01": f"savepoint {write} needs it, and its partition would be deleted",
    }


def test_while_a_savepoint_is_in_the_making_no_partition_may_go(table: HudiTable) -> None:
    """It is not known yet what the savepoint will hold."""
    table.put(f"{table.next_time()}.savepoint.inflight")
    with pytest.raises(TemporaryError):
        partitions_in_need(str(table.folder), LocalStorage(), ["p0"])
