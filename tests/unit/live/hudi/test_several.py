"""Several writers beside one daemon: the writers, their orders, what a watcher sees, and the report."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.demo.report import Range
from lakewarden.demo.writers.orders import Batch, Ending, Row, day_by_count
from lakewarden.service.config.loading import load
from lakewarden.service.http.schemas import RunBody
from live.hudi.policies import policies_of_several
from live.hudi.several.blame import Blame, Told, disagreements, judge
from live.hudi.several.report import SeveralReport
from live.hudi.several.shops import WARM_DAYS, sales
from live.hudi.several.timeline_watcher import Seen, Sighting, TimelineWatcher, instants, unmerged_peak
from live.hudi.several.writer_specs import VERSIONS, second_opinion, writer_specs
from live.report import LiveReaderTally, LiveServiceTally, LiveWriterTally, TimeTravel, tell
from tests.support.daemon.answers import NOON, a_run_told
from tests.support.hudi.hudi_bundles import HUDI_BUNDLES

# The report on several writers: conflicts between the writers do not count, and everything else is a shortcoming.


VERDICT = Blame(
    writer="b",
    batch=9,
    begun="2026-01-01T12:00:00+00:00",
    instant="20260101120000000",
    ours=False,
    why="it lost to deltacommit 20260101115959000",
)
GOOD = SeveralReport(
    table_type="mor",
    writer_kind="conflicting",
    seconds=180.0,
    wanted_commits=60,
    enabled=("compaction",),
    each_succeeds=3,
    rows_expected=200,
    rows_found=200,
    rows_wrong=0,
    writer=LiveWriterTally(commits=61, failures=1, caused_by_us=0),
    writers={"writer": LiveWriterTally(commits=31, failures=0, caused_by_us=0)},
    reader=LiveReaderTally(queries=100, failures=0),
    services={"compaction": LiveServiceTally(succeeded=4)},
    counted={"log_files": Range(peak=20, end=0)},
    time_travel=TimeTravel(instants=9),
    table_version=8,
    releases=("1.0.2", "1.1.1"),
    verdicts=[VERDICT],
    told=[Told(instant=VERDICT.instant or "", ours=False, reason="its heartbeat is gone")],
    disagreements=[],
    left_pending=[],
    unmerged_peak=24,
    late=[],
    left_out=2,
    wrong_by_spark=0,
)


def test_a_conflict_of_two_writers_is_no_shortcoming() -> None:
    """It is counted and reported."""
    assert GOOD.shortcomings() == []


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(replace(GOOD, rows_wrong=1), id="a wrong row"),
        pytest.param(replace(GOOD, wrong_by_spark=1), id="a row that is wrong by the second reader"),
        pytest.param(replace(GOOD, writer=replace(GOOD.writer, caused_by_us=1)), id="a failure of ours"),
        pytest.param(replace(GOOD, writer=replace(GOOD.writer, commits=59)), id="too few commits"),
        pytest.param(replace(GOOD, reader=LiveReaderTally(queries=9, failures=1)), id="a failed query"),
        pytest.param(replace(GOOD, disagreements=["the daemon does not tell of it"]), id="another story"),
        pytest.param(replace(GOOD, left_pending=["20260101120000000 deltacommit"]), id="something half-way"),
        pytest.param(replace(GOOD, late=["compaction c waited"]), id="a late compaction"),
        pytest.param(replace(GOOD, errors=["the writer is gone"]), id="trouble on the way"),
    ],
)
def test_whatever_else_was_promised_and_not_shown_is_a_shortcoming(bad: SeveralReport) -> None:
    """Each promise is checked by itself."""
    assert len(bad.shortcomings()) == 1


def test_people_and_programs_are_told_whose_fault_each_failure_is(tmp_path: Path) -> None:
    """The report has the instant, the reason, and the daemon's account."""
    out = io.StringIO()
    tell(Console(file=out, width=200), GOOD)
    GOOD.write(tmp_path / "report.json")
    found = json.loads((tmp_path / "report.json").read_text())

    for words in ("Hudi 1.0.2, 1.1.1", "theirs: batch 9 of b", VERDICT.why, "0 of 1 failures are ours", "0 of 1"):
        assert words in out.getvalue()
    assert found["verdicts"][0]["why"] == VERDICT.why
    assert [told["instant"] for told in found["told"]] == [VERDICT.instant]


# The cause of a failed commit, and the differences from the daemon's account.


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    return at(seconds).strftime("%Y%m%d%H%M%S%f")[:17]


def failed(begun: float, answered: float, message: str = "HoodieIOException: what now") -> Batch:
    return Batch(number=7, rows=(), begun=at(begun), ending=Ending.FAILED, answered=at(answered), message=message)


def seen(action: str, begun: float, completed: float | None = None, *, until: float = 99) -> Seen:
    done = None if completed is None else at(completed)
    return Seen(instant=stamp(begun), action=action, begun=at(begun), ended=done or at(until), completed=done)


def lost_to(own: float, other: float) -> str:
    """Return the message of Hudi 1.2.0."""
    return (
        ": org.apache.hudi.exception.HoodieWriteConflictException: java.util.ConcurrentModificationException: Cannot "
        "resolve conflicts for overlapping writes between first operation = ConcurrentOperation(actionState=INFLIGHT, "
        f"actionType=deltacommit, instantTime={stamp(own)}), second operation = ConcurrentOperation("
        f"actionState=COMPLETED, actionType=deltacommit, instantTime={stamp(other)})\n\tat org.apache.hudi"
    )


def lost_to_as_of_old(own: float, other: float) -> str:
    """Return the message of releases before 1.2 (`ConcurrentOperation.toString`)."""
    return (
        "py4j.protocol.Py4JJavaError: An error occurred while calling o99.save.\n"
        ": org.apache.hudi.exception.HoodieWriteConflictException: java.util.ConcurrentModificationException: Cannot "
        f"resolve conflicts for overlapping writes between first operation = {{actionType=deltacommit, "
        f"instantTime={stamp(own)}, actionState=INFLIGHT'}}, second operation = {{actionType=clustering, "
        f"instantTime={stamp(other)}, actionState=REQUESTED'}}\n"
    )


def run(started: float, ended: float | None) -> RunBody:
    return a_run_told(service="archive", started_at=at(started), ended_at=None if ended is None else at(ended))


CLUSTERING = "HoodieClusteringUpdateException: Not allowed to update the clustering file group"
OWN, OTHER = seen("deltacommit", 11), seen("deltacommit", 10, 15)


@pytest.mark.parametrize(
    ("batch", "others", "runs", "ours"),
    [
        pytest.param(failed(10, 20, lost_to(11, 12)), [seen("clustering", 12)], [], True, id="lost to our plan"),
        pytest.param(failed(10, 20, lost_to_as_of_old(11, 12)), [seen("clustering", 12)], [], True, id="1.1, our plan"),
        pytest.param(
            failed(10, 20, lost_to_as_of_old(11, 10)), [OTHER, seen("clean", 12)], [], False, id="1.1, theirs"
        ),
        pytest.param(failed(10, 20, lost_to(11, 2)), [seen("compaction", 2, 15)], [], True, id="lost to our commit"),
        pytest.param(failed(10, 20, lost_to(11, 10)), [OTHER], [], False, id="lost to another writer"),
        pytest.param(
            failed(10, 20, lost_to(11, 10)),
            [OTHER, seen("clustering", 12)],
            [run(9, 19)],
            False,
            id="lost to another writer while we were there",
        ),
        pytest.param(failed(10, 20, CLUSTERING), [seen("clustering", 2, 12)], [], True, id="met our clustering"),
        pytest.param(failed(10, 20), [seen("logcompaction", 2, 12)], [], True, id="unexplained, our commit"),
        pytest.param(failed(10, 20), [seen("clean", 19)], [], True, id="unexplained, our plan"),
        pytest.param(failed(10, 20), [seen("clean", 2, 9), seen("clean", 21)], [], False, id="before and after"),
        pytest.param(failed(10, 20), [OTHER], [run(1, 12)], True, id="unexplained, an archive of ours"),
        pytest.param(failed(10, 20), [OTHER], [run(1, 9), run(21, None)], False, id="unexplained, alone"),
    ],
)
def test_a_failure_is_ours_if_it_lost_to_us_or_if_it_is_unexplained_and_we_were_there(
    batch: Batch, others: list[Seen], runs: list[RunBody], ours: bool
) -> None:
    """A write lasts from its beginning to the answer. Hudi's message counts before what was merely there."""
    [verdict] = judge({"a": [batch]}, [OWN, *others], runs)

    assert verdict.ours is ours
    assert (verdict.writer, verdict.batch, verdict.instant) == ("a", 7, OWN.instant)


def test_failed_commits_of_one_moment_left_an_instant_each() -> None:
    """The message names its own instant. Without one it is the oldest remaining instant of the batch's time. A commit
    that failed before it began a write left nothing: what another writer completed meanwhile is not its own.
    """
    first, second = seen("deltacommit", 11), seen("deltacommit", 12)
    unnamed, named = failed(10.5, 20), failed(10, 20, lost_to(11, 3))

    verdicts = judge({"a": [unnamed], "b": [named]}, [seen("clustering", 3), first, second], [])
    [before_its_write] = judge({"a": [failed(10, 20)]}, [seen("deltacommit", 11, 15)], [])

    assert {verdict.writer: verdict.instant for verdict in verdicts} == {"a": second.instant, "b": first.instant}
    assert before_its_write.instant is None


JUDGED = Blame(writer="a", batch=7, begun=at(10).isoformat(), instant=stamp(11), ours=True, why="it lost to clustering")
TOLD = Told(instant=stamp(11), ours=True, reason="its heartbeat is gone")


@pytest.mark.parametrize(
    ("verdicts", "told", "times"),
    [
        pytest.param([JUDGED], [TOLD], 0, id="the same"),
        pytest.param([JUDGED], [], 1, id="untold"),
        pytest.param([], [TOLD], 1, id="of no writer"),
        pytest.param([JUDGED], [replace(TOLD, ours=False)], 1, id="denied"),
        pytest.param([replace(JUDGED, ours=False)], [TOLD], 1, id="claimed"),
        pytest.param([replace(JUDGED, instant=None)], [], 0, id="nothing to be seen"),
    ],
)
def test_the_daemon_must_tell_of_the_same_failures_with_the_same_blame(
    verdicts: list[Blame], told: list[Told], times: int
) -> None:
    """If nothing was left on the timeline, there is nothing to report."""
    assert len(disagreements(verdicts, told)) == times


# The files that a watcher sees on a timeline become instants, with their action and the time for which they were
# pending.


def sighted(name: str, first: float = 0, last: float = 100) -> Sighting:
    return Sighting(name=name, first=at(first), last=at(last))


@pytest.mark.parametrize(
    ("names", "action", "written"),
    [
        pytest.param([".deltacommit.requested", ".deltacommit.inflight"], "deltacommit", True, id="a write"),
        pytest.param([".commit.requested", ".inflight"], "commit", True, id="a write of copy on write"),
        pytest.param([".inflight"], "commit", True, id="a write whose request was not seen"),
        pytest.param([".compaction.requested", ".compaction.inflight"], "compaction", False, id="a compaction"),
        pytest.param([".clustering.requested"], "clustering", False, id="a clustering"),
        pytest.param([".logcompaction.requested"], "logcompaction", False, id="a log compaction"),
    ],
)
def test_an_instant_is_what_its_plan_says_while_pending_and_when_completed(
    names: list[str], action: str, written: bool
) -> None:
    """A completed compaction is called a commit, a log compaction a deltacommit. Only the plan shows the action."""
    pending = [sighted(stamp(0) + name, 0, 4) for name in names]
    ends = {"compaction": "commit", "clustering": "replacecommit", "logcompaction": "deltacommit"}
    completed = sighted(f"{stamp(0)}_{stamp(4)}.{ends.get(action, action)}", 4, 90)

    [left] = instants(pending)
    [done] = instants([completed, *pending])

    assert (left.action, left.written, left.completed, left.ended) == (action, written, None, at(4))
    assert (done.action, done.written, done.completed, done.ended) == (action, written, at(4), at(4))


def test_what_is_no_instant_and_what_shares_one_is_left_out() -> None:
    """Savepoints have the instant of the commit that they hold."""
    names = ["history", f"{stamp(1)}_{stamp(2)}.savepoint", f"{stamp(1)}.savepoint.inflight", "metadata.json"]

    assert instants(map(sighted, names)) == ()


def test_a_write_waits_until_a_compaction_is_complete_that_was_planned_after_it() -> None:
    """A write in flight at the plan waits for the next compaction."""
    writes = [seen("deltacommit", n, n + 0.5) for n in range(4)]
    in_flight = seen("deltacommit", 4, 6)
    first, second = seen("compaction", 5, 8), seen("compaction", 9, 10)

    assert unmerged_peak([*writes, in_flight, first, second]) == 5
    assert unmerged_peak([*writes, in_flight, first, second, seen("deltacommit", 8.2, 8.5)]) == 5
    assert unmerged_peak([*writes, seen("deltacommit", 5.5, None), seen("clustering", 6, 7)]) == 4
    assert unmerged_peak([]) == 0


def test_the_timeline_is_looked_at_until_the_end_and_what_vanishes_is_remembered(tmp_path: Path) -> None:
    """Archived instants are gone from the folder. The remaining ones are read from the folder."""
    watcher = TimelineWatcher(tmp_path)
    watcher.start()
    timeline = tmp_path / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    vanishing = timeline / f"{stamp(1)}.deltacommit.requested"
    for name in (vanishing.name, f"{stamp(2)}.clustering.requested"):
        (timeline / name).touch()
    pause = threading.Event()
    for _ in range(100):
        if len(watcher.seen()) == 2:
            break
        pause.wait(0.05)
    vanishing.unlink()
    watcher.stop()

    assert [one.action for one in watcher.seen()] == ["deltacommit", "clustering"]
    assert watcher.left() == [f"{stamp(2)} clustering"]


# The orders of several shops: always with own keys, with own days unless they are shared, and now and then a deletion
# of an old order.


def batches(shop: str, *, shared: bool, seed: int = 1, many: int = 40) -> list[tuple[Row, ...]]:
    return list(islice(sales(shop, seed=seed, day_of=day_by_count, shared=shared), many))


@given(seed=st.integers(), shared=st.booleans())
def test_only_what_lives_is_changed_or_deleted_and_what_was_deleted_returns(seed: int, shared: bool) -> None:
    """Otherwise the right rows would not follow from the record."""
    living: dict[str, Row] = {}
    known, returned = set[str](), 0
    for number, rows in enumerate(batches("a", shared=shared, seed=seed), start=1):
        assert len({row.key for row in rows}) == len(rows)
        for row in rows:
            assert row.value == number
            assert row.key in living or (not row.deleted and (row.key in known or f"-a-{number:05}-" in row.key))
            returned += row.key in known - living.keys()
            known.add(row.key)
            living.pop(row.key, None)
            if not row.deleted:
                living[row.key] = row
    assert returned > 20


@pytest.mark.parametrize("shared", [True, False])
def test_two_shops_never_have_the_same_order_and_share_days_only_where_they_are_to(shared: bool) -> None:
    """The record of one writer says nothing about another's rows."""
    a, b = ([row for rows in batches(shop, shared=shared) for row in rows] for shop in "ab")

    assert not {row.key for row in a} & {row.key for row in b}
    assert bool({row.partition for row in a} & {row.partition for row in b}) is shared


def test_orders_of_days_that_are_cold_are_deleted_now_and_then_and_never_changed() -> None:
    """Clustering takes cold days, and a delete is the change that meets it there."""
    days: Mapping[str, int] = {}
    cold = []
    for number, rows in enumerate(batches("a", shared=True), start=1):
        today = day_by_count(number)
        days = {**days, **{row.key: today for row in rows if row.key not in days}}
        cold += [row for row in rows if days[row.key] <= today - WARM_DAYS]

    assert len(cold) == 9
    assert all(row.deleted for row in cold)


# The writers: real releases that can write the table's version, and some that conflict with each other.


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writers", [2, 3, 4])
def test_every_table_is_written_by_more_than_one_release_that_knows_its_version(version: int, writers: int) -> None:
    """Each writer has keys of its own. The last reader is another release than ours. Where there are to be conflicts,
    one packs what another changes. Not all of them do: small files must remain for clustering.
    """
    parts = writer_specs(writers, table_version=version, conflicts=False)

    assert len({part.shop for part in parts}) == writers
    assert len({part.release for part in parts}) > 1
    assert {part.release for part in parts} <= HUDI_BUNDLES.keys()
    assert version < 9 or "1.0.2" not in {part.release for part in parts}
    assert second_opinion(version) != "1.2.0"
    assert not any(part.packs for part in parts)
    assert {part.packs for part in writer_specs(writers, table_version=version, conflicts=True)} == {False, True}


@pytest.mark.parametrize("kind", TableType)
def test_the_policies_beside_several_writers_are_a_valid_configuration(tmp_path: Path, kind: TableType) -> None:
    """All services have one, except those without a meaning for the table's type."""
    table = {"id": "orders", "format": "hudi", "path": str(tmp_path), "services": policies_of_several(kind, 3)}
    (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump({"tables": [table]}))

    load(tmp_path / "lakewarden.yaml")

    assert ("compaction" in policies_of_several(kind, 3)) is (kind is TableType.MOR)
