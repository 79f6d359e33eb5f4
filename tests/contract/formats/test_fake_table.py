"""The services of the fake table change it, so that tests can see their effect."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId
from tests.support.doubles.fake import FakeTable


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable.create(tmp_path / "t")


def run(table: FakeTable, plan: str | None) -> None:
    assert plan is not None
    table.start(plan)
    table.complete(plan)


def test_writes_add_rows_and_log_files(table: FakeTable) -> None:
    """They appear after the commit, and not before."""
    begun = table.begin_write()
    table.write(rows=3)
    assert (table.rows, table.log_files) == (3, 1)
    table.commit_write(begun, rows=2)
    assert (table.rows, table.log_files) == (5, 2)


def test_a_compaction_merges_the_log_files_of_its_plan(table: FakeTable) -> None:
    """A write after the plan stays a log file. The merged files become a new version."""
    table.write()
    plan = table.plan_compaction()
    table.write()
    assert table.log_files == 2
    run(table, plan)
    assert (table.log_files, table.file_versions, table.rows) == (1, 2, 2)


def test_a_clean_deletes_all_but_the_newest_versions(table: FakeTable) -> None:
    """It deletes no row."""
    for _ in range(3):
        table.write()
        run(table, table.plan_compaction())
    assert table.file_versions == 4
    run(table, table.plan_clean(versions_retained=2))
    assert (table.file_versions, table.rows) == (2, 3)


def test_there_is_nothing_to_plan_twice(table: FakeTable) -> None:
    """The content of a pending plan is not planned again."""
    table.write()
    assert table.plan_clean() is None
    assert table.plan_compaction(run=RunId("r")) is not None
    assert table.plan_compaction() is None


def test_a_withdrawn_plan_gives_back_what_it_named(table: FakeTable) -> None:
    """If a run yields, the next run does the work."""
    table.write()
    plan = table.plan_compaction()
    assert plan is not None
    table.start(plan)
    table.withdraw(plan)
    run(table, table.plan_compaction())
    assert table.log_files == 0


def test_steps_that_the_timeline_does_not_allow_are_refused(table: FakeTable) -> None:
    """Examples are a second completion, the completion of a plan that was not begun, and an unknown instant."""
    table.write()
    plan = table.plan_compaction()
    assert plan is not None
    with pytest.raises(PermanentError, match="never begun"):
        table.complete(plan)
    run(table, plan)
    with pytest.raises(PermanentError, match="completed"):
        table.complete(plan)
    with pytest.raises(PermanentError, match="unknown"):
        table.start("00009999")


def test_writers_and_services_at_once_take_different_instants(table: FakeTable) -> None:
    """Several processes may use the same table. No instant is taken twice, and no row is lost."""
    others = [FakeTable(table.folder) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        times = list(pool.map(lambda n: others[n % 4].write(), range(24)))
    assert len(set(times)) == 24
    assert table.rows == 24


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sampled_from(["write", "compact", "clean"]), max_size=12))
def test_no_service_ever_changes_a_row(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    """The rows are those of the writers. Log files are not merged yet, and one version always stays."""
    table = FakeTable.create(tmp_path_factory.mktemp("fake") / "t")
    for step in steps:
        match step:
            case "write":
                table.write()
            case "compact" if (plan := table.plan_compaction()) is not None:
                run(table, plan)
            case "clean" if (plan := table.plan_clean()) is not None:
                run(table, plan)
        assert table.file_versions >= 1
    assert table.rows == steps.count("write")
