"""What every store promises the daemon, whatever database keeps its rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import location_of
from lakewarden.service.model.rows import (
    ApprovalRow,
    DecisionRow,
    FolderRow,
    LockProofRow,
    RewriteRow,
    ServiceStateRow,
    WriterSignsRow,
)
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.store.sql.notes import Row
from lakewarden.service.store.sql.store import Store
from tests.support.store.replicas import ME, take_ownership
from tests.support.values import IDENTITY, NOW, a_run

HOUR = timedelta(hours=1)
MONTH = timedelta(days=30)
TRIPS = {TableId("trips"): "/lake/trips"}


def epoch(store: Store) -> int:
    """Return the newest epoch of the lease that most tests use."""
    return store.epoch(identity=str(IDENTITY), service=Service.COMPACTION)


def claimed(store: Store, run: str = "r1", **news: object) -> Run:
    """Request a run and claim it, as the owner of its table."""
    row = store.request(a_run(run, **news))
    return store.take_lease(row.id, owner=take_ownership(store, location_of(row.identity)), at=NOW)


def forgotten(store: Store, *, before: datetime, registered: Mapping[TableId, str] = TRIPS, at: datetime = NOW) -> int:
    """Forget older rows, at the time of a replica that knows some tables. Return how many runs were deleted."""
    at = max(at, before)
    return sum(store.forget(registered=registered, at=at, keep=at - before))


def note(store: Store, table: TableId) -> None:
    """Keep one note of each kind for a table."""
    service = Service.COMPACTION
    decision = DecisionRow(
        table=table,
        service=service,
        decision="NotDue",
        reason="1 of 5",
        remedy=None,
        again_at=None,
        decided_at=NOW - MONTH,
    )
    store.decided([decision])
    store.keep_row(ServiceStateRow(table=table, service=service, strikes=1))
    approval = ApprovalRow(
        table=table,
        service=service,
        identity="",
        instant=None,
        files=1,
        files_in_table=None,
        partitions=0,
        asked_at=NOW,
    )
    store.keep_row(approval)
    store.keep_row(RewriteRow(table=table, service=service, identity="", mark="1-1", asked_by="ada", asked_at=NOW))
    store.keep_row(a_lock_proof(table))
    store.keep_row(WriterSignsRow(table=table, hook_at=NOW))
    store.keep_row(FolderRow(table=table, location=f"catalog://lake/db.{table}", folder="f00d"))
    store.pause(table, reason="migration", at=NOW)


def test_the_tables_in_one_folder_are_found_by_the_last_folder_of_each(store: Store) -> None:
    """A table that has moved is in its new folder alone."""
    one = FolderRow(table=TableId("one"), location="catalog://lake/db.one", folder="a")
    two = replace(one, table=TableId("two"), location="catalog://lake/db.two")
    for row in (one, two, replace(two, folder="b")):
        store.keep_row(row)

    assert store.tables_in("a") == [one]
    assert store.tables_in("c") == []
    assert {row.table: row.folder for row in store.rows(FolderRow)} == {"one": "a", "two": "b"}


def a_lock_proof(table: TableId) -> LockProofRow:
    """Return the evidence of a table's lock, with every field."""
    return LockProofRow(
        table=table,
        identity="/lake/trips#once",
        lock="/hudi/trips of ZooKeeper zk:2181",
        verdict="disproved",
        witnessed=3,
        several=True,
        without="20260501120000000",
        seen_at=NOW,
    )


def noted(store: Store) -> set[str]:
    """Return the tables with notes, for every kind of note."""
    decided = {
        table
        for table in ("trips", "gone", "half-way", "elsewhere", "in a catalog", "of an older release")
        if store.decisions(TableId(table))
    }
    assert (
        decided == {row.table for row in store.rows(ServiceStateRow)} == {row.table for row in store.rows(ApprovalRow)}
    )
    assert decided == {row.table for row in store.rows(WriterSignsRow)}
    assert decided == {row.table for row in store.rows(FolderRow)}
    assert decided == {row.table for row in store.rows(LockProofRow)} == {row.table for row in store.rows(RewriteRow)}
    return decided


def ended(store: Store, run: str = "r1", *, at: datetime = NOW, **news: object) -> Run:
    """Request a run, claim it and end it."""
    row = claimed(store, run, **news)
    return store.end(row.id, epoch=row.epoch, state=RunState.SUCCEEDED, outcome="completed", at=at)


# -- requests


def test_a_requested_run_comes_back_as_it_was_given(store: Store) -> None:
    """Every field is the same, at once and later."""
    run = a_run(instant="00000010", rewrite_all="7-4711")

    assert store.request(run) == run
    assert store.run(run.id) == run
    assert store.run(RunId("nobody")) is None


def test_a_service_of_a_table_has_one_active_run(store: Store) -> None:
    """Until the run has ended, a second request returns the same run, in any state."""
    first = store.request(a_run("r1"))
    assert store.request(a_run("r2")) == first

    running = store.take_lease(first.id, owner=take_ownership(store, "/lake/trips"), at=NOW)
    assert store.request(a_run("r2")) == running

    store.end(running.id, epoch=running.epoch, state=RunState.FAILED, outcome="it broke", at=NOW)
    assert store.request(a_run("r3")).id == "r3"
    assert store.run(RunId("r2")) is None


def test_other_services_and_other_tables_have_active_runs_of_their_own(store: Store) -> None:
    """The identity of the table counts, not its name."""
    store.request(a_run("r1"))

    assert store.request(a_run("r2", service=Service.CLEAN)).id == "r2"
    assert store.request(a_run("r3", identity="/lake/orders#1")).id == "r3"
    assert store.request(a_run("r4", table=TableId("another name"))).id == "r1"


# -- claims and epochs


def test_every_claim_raises_the_epoch(store: Store) -> None:
    """The newest owner has the highest number. The number never falls."""
    assert epoch(store) == 0

    epochs = [ended(store, run).epoch for run in ("r1", "r2", "r3")]

    assert epochs == [1, 2, 3]
    assert epoch(store) == 3


def test_a_claimed_run_is_running(store: Store) -> None:
    """It has the time of its claim."""
    run = claimed(store)

    assert (run.state, run.started_at, run.epoch) == (RunState.RUNNING, NOW, 1)
    assert store.run(run.id) == run


def test_epochs_are_counted_per_table_and_service(store: Store) -> None:
    """Owners of another service change nothing."""
    claimed(store, "r1")
    claimed(store, "r2", service=Service.CLEAN)
    claimed(store, "r3", identity="/lake/orders#1")

    assert epoch(store) == 1


@pytest.mark.parametrize("how", [claimed, ended])
def test_only_a_queued_run_can_be_claimed(store: Store, how: Callable[[Store], Run]) -> None:
    """A second claim is refused and does not change the lease."""
    run = how(store)

    with pytest.raises(SupersededError):
        store.take_lease(run.id, owner=ME, at=NOW)

    assert store.run(run.id) == run
    assert epoch(store) == 1


def test_a_run_that_does_not_exist_can_be_neither_claimed_nor_changed(store: Store) -> None:
    """It was deleted meanwhile."""
    with pytest.raises(SupersededError):
        store.take_lease(RunId("nobody"), owner=ME, at=NOW)
    with pytest.raises(SupersededError):
        store.progress(RunId("nobody"), epoch=1, state=RunState.RUNNING)
    with pytest.raises(SupersededError):
        store.end(RunId("nobody"), epoch=1, state=RunState.FAILED, outcome="", at=NOW)


# -- progress and endings


def test_progress_changes_what_is_given_and_nothing_else(store: Store) -> None:
    """State, step and instant are set one after another, and stay."""
    run = claimed(store)

    store.progress(run.id, epoch=1, executor="a JVM", application="its executors")
    store.progress(run.id, epoch=1, instant="00000010")
    store.progress(run.id, epoch=1, step=Step.COMMIT, state=RunState.COMMITTING)
    store.progress(run.id, epoch=1)

    executors = {"executor": "a JVM", "application": "its executors"}
    expected = claimed_like(run, **executors, instant="00000010", step=Step.COMMIT, state=RunState.COMMITTING)
    assert store.run(run.id) == expected


def claimed_like(run: Run, **news: object) -> Run:
    """Return a claimed run as it is after some progress."""
    return a_run(run.id, **{"epoch": run.epoch, "owner": run.owner, "started_at": run.started_at, **news})


def test_an_ended_run_keeps_its_outcome_and_figures(store: Store) -> None:
    """They are whole numbers, fractions and words."""
    run = claimed(store)
    figures: dict[str, int | float | str] = {"files_added": 3, "seconds": 1.5, "codec": "zstd"}

    given = store.end(run.id, epoch=1, state=RunState.SUCCEEDED, outcome="completed", at=NOW + HOUR, figures=figures)

    assert given == claimed_like(
        run, state=RunState.SUCCEEDED, outcome="completed", ended_at=NOW + HOUR, figures=figures
    )
    assert store.run(run.id) == given


def test_whatever_was_said_can_be_kept(store: Store) -> None:
    """An error of another program may contain bytes that are no text. The run ends all the same, and the rest can be
    read.
    """
    run = claimed(store, reason="caf\u00e9 \0", requested_by="\ud800ada")

    store.end(run.id, epoch=1, state=RunState.FAILED, outcome="it \0 broke \udcff \U0001f980", at=NOW)
    store.pause(None, reason="\0", at=NOW)

    kept = store.run(run.id)
    assert kept is not None
    assert kept.reason.startswith("caf\u00e9 ")
    assert kept.requested_by.endswith("ada")
    assert re.fullmatch("it . broke . \U0001f980", kept.outcome or "", re.DOTALL)


def test_a_run_that_was_never_claimed_can_be_ended(store: Store) -> None:
    """It has no lease of its own, and needs none to be ended."""
    run = store.request(a_run())

    store.end(run.id, epoch=0, state=RunState.CANCELLED, outcome="no policy any more", at=NOW)

    assert store.active() == []


def _progress(store: Store, run: Run, epoch: int) -> None:
    store.progress(run.id, epoch=epoch, state=RunState.UNKNOWN, step=Step.COMMIT, instant="00000099")


def _end(store: Store, run: Run, epoch: int) -> None:
    store.end(run.id, epoch=epoch, state=RunState.FAILED, outcome="late", at=NOW)


LATE = pytest.mark.parametrize("act", [_progress, _end])


@LATE
@pytest.mark.parametrize("number", [0, 1, 3])
def test_only_the_newest_owner_may_tell_what_becomes_of_a_run(
    store: Store, act: Callable[[Store, Run, int], None], number: int
) -> None:
    """A number other than the lease's is too late, and changes nothing."""
    ended(store, "r1")
    run = claimed(store, "r2")
    assert run.epoch == 2

    with pytest.raises(SupersededError):
        act(store, run, number)

    assert store.run(run.id) == run


@LATE
def test_an_ended_run_never_changes_again(store: Store, act: Callable[[Store, Run, int], None]) -> None:
    """Not even its own owner can change it."""
    run = ended(store)

    with pytest.raises(SupersededError):
        act(store, run, run.epoch)

    assert store.run(run.id) == run


# -- reading


def test_active_runs_come_oldest_first(store: Store) -> None:
    """They come in the order of their requests, in any state, without those that ended."""
    for number in (3, 1, 2):
        store.request(a_run(f"r{number}", identity=f"/lake/{number}#1"))
    running = store.take_lease(RunId("r1"), owner=take_ownership(store, "/lake/1"), at=NOW)
    ended(store, "r4", identity="/lake/4#1")

    assert [run.id for run in store.active()] == ["r3", "r1", "r2"]
    assert running in store.active()


def test_runs_come_newest_first_and_can_be_chosen(store: Store) -> None:
    """They can be chosen by table, by service, by state, and by number."""
    ended(store, "r1")
    ended(store, "r2")
    store.request(a_run("r3"))
    store.request(a_run("r4", service=Service.CLEAN))
    store.request(a_run("r5", table=TableId("orders"), identity="/lake/orders#1"))

    def ids(**choice: object) -> list[str]:
        return [run.id for run in store.runs(**choice)]  # type: ignore[arg-type]

    assert ids() == ["r5", "r4", "r3", "r2", "r1"]
    assert ids(limit=2) == ["r5", "r4"]
    assert ids(before="r4") == ["r3", "r2", "r1"]
    assert ids(before="r4", states=[RunState.SUCCEEDED], limit=1) == ["r2"]
    assert ids(before="r1") == ids(before="nothing") == []
    assert ids(table=TableId("orders")) == ["r5"]
    assert ids(service=Service.CLEAN) == ["r4"]
    assert ids(states=[RunState.SUCCEEDED]) == ["r2", "r1"]
    assert ids(table=TableId("trips"), states=[RunState.QUEUED, RunState.SUCCEEDED], limit=3) == ["r4", "r3", "r2"]
    assert ids(table=TableId("nobody")) == []


def test_the_newest_success_of_many_services_is_read_in_one_go(store: Store) -> None:
    """A service without a success is left out, whatever else ran."""
    trips, orders = TableId("trips"), TableId("orders")
    ended(store, "r1")
    ended(store, "r2")
    store.request(a_run("r3"))
    ended(store, "r4", service=Service.CLEAN)
    store.request(a_run("r5", table=orders, identity="/lake/orders#1"))
    asked = [(trips, Service.COMPACTION), (trips, Service.CLEAN), (orders, Service.COMPACTION)]

    newest = store.newest_succeeded(asked)

    assert {key: run.id for key, run in newest.items()} == dict(zip(asked, ["r2", "r4"], strict=False))


def test_the_instants_of_our_runs_are_remembered(store: Store) -> None:
    """Only those of this table and service are returned, ended or not, planned or adopted."""
    ended(store, "r1", instant="00000001")
    run = claimed(store, "r2")
    store.progress(run.id, epoch=run.epoch, instant="00000002")
    claimed(store, "r3", service=Service.CLEAN, instant="00000003")
    claimed(store, "r4", identity="/lake/orders#1", instant="00000004")

    assert store.instants(identity=str(IDENTITY), service=Service.COMPACTION) == {"00000001", "00000002"}
    assert store.instants(identity="/lake/nobody#1", service=Service.CLEAN) == frozenset()


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC),
        datetime(2026, 5, 1, 14, 0, 0, tzinfo=timezone(2 * HOUR)),
        datetime(1970, 1, 1, tzinfo=UTC),
    ],
)
def test_times_come_back_as_the_same_moments(store: Store, moment: datetime) -> None:
    """They have a zone and microseconds, whatever zone they were given in."""
    ended(store, created_at=moment, at=moment + HOUR)

    run = store.run(RunId("r1"))

    assert run is not None
    assert (run.created_at, run.ended_at) == (moment, moment + HOUR)
    assert run.created_at.tzinfo is not None


# -- decisions and pauses

DECISION = DecisionRow(
    table=TableId("trips"),
    service=Service.COMPACTION,
    decision="Blocked",
    reason="no lock is configured",
    remedy="name the lock",
    again_at=NOW + HOUR,
    decided_at=NOW,
)


def test_the_last_decision_of_each_service_is_kept(store: Store) -> None:
    """A new decision replaces the one before. Other services and tables keep theirs."""
    later = replace(
        DECISION, decision="Due", reason="5 of 5 commits", remedy=None, again_at=None, decided_at=NOW + HOUR
    )
    clean = replace(later, service=Service.CLEAN, decision="NotDue", reason="1 of 5 commits", decided_at=NOW)
    store.decided([DECISION, clean])
    store.decided([later])

    assert store.decisions(TableId("trips")) == [clean, later]  # in the order of the services' names
    assert store.decisions(TableId("orders")) == []
    orders = replace(clean, table=TableId("orders"))
    store.decided([orders])
    assert store.decisions(TableId("trips"), TableId("orders"), TableId("nobody")) == [orders, clean, later]


def test_pauses_hold_until_they_are_ended(store: Store) -> None:
    """There is one per table and a global one. A second pause replaces the reason. Ending a missing pause does
    nothing.
    """
    trips = TableId("trips")
    store.resume(trips)
    store.pause(trips, reason="migration", at=NOW)
    store.pause(trips, reason="second migration", at=NOW)
    store.pause(None, reason="maintenance", at=NOW)
    assert store.pauses() == {trips: "second migration", None: "maintenance"}

    store.resume(None)
    assert store.pauses() == {trips: "second migration"}
    store.resume(trips)
    assert store.pauses() == {}


# -- forgetting


def test_forgetting_keeps_the_last_run_of_each_service_and_what_has_not_ended(store: Store) -> None:
    """This holds for any age, for operators ask for it."""
    for run in ("old1", "old2"):
        ended(store, run, at=NOW - 2 * HOUR)
    ended(store, "clean1", at=NOW - 2 * HOUR, service=Service.CLEAN)
    ended(store, "young", at=NOW + HOUR)
    claimed(store, "open")

    assert forgotten(store, before=NOW) == 2

    assert [run.id for run in store.runs()] == ["open", "young", "clean1"]
    assert forgotten(store, before=NOW) == 0
    assert forgotten(store, before=NOW + 2 * HOUR) == 1
    assert [run.id for run in store.runs()] == ["open", "clean1"]


def test_forgetting_does_not_let_epochs_fall(store: Store) -> None:
    """A lease stays while the table's last run is there."""
    for run in ("r1", "r2", "r3"):
        ended(store, run, at=NOW - 2 * MONTH)

    forgotten(store, before=NOW - HOUR, registered=TRIPS)

    assert claimed(store, "r4").epoch == 4


def test_what_is_kept_of_a_table_that_is_not_registered_any_more_goes(store: Store) -> None:
    """Its runs, its leases and every note except its pause are deleted, once no replica has named it for the time that
    runs are kept. Runs that have not ended stay, and so does everything of other tables.
    """
    for table in ("trips", "gone", "half-way"):
        of_table = {"table": TableId(table), "identity": f"/lake/{table}#once"}
        ended(store, f"{table}1", at=NOW - MONTH, **of_table)
        note(store, TableId(table))
    claimed(store, "half-way2", table=TableId("half-way"), identity="/lake/half-way#once")
    store.mark_dirty(["/lake/gone", "/lake/trips"])
    everything = {**TRIPS, TableId("gone"): "/lake/gone", TableId("half-way"): "/lake/half-way"}
    forgotten(store, before=NOW - MONTH, registered=everything, at=NOW)

    for day in range(1, 31):
        forgotten(store, before=NOW + timedelta(days=day) - MONTH, registered=TRIPS, at=NOW + timedelta(days=day))
    assert noted(store) == {"trips", "gone", "half-way"}, "not before its time"
    forgotten(store, before=NOW + HOUR, registered=TRIPS, at=NOW + MONTH + HOUR)

    assert noted(store) == {"trips", "half-way"}
    assert [run.id for run in store.runs()] == ["half-way2", "trips1"]
    assert store.epoch(identity="/lake/gone#once", service=Service.COMPACTION) == 0
    assert store.epoch(identity="/lake/trips#once", service=Service.COMPACTION) == 1
    assert store.epoch(identity="/lake/half-way#once", service=Service.COMPACTION) == 2
    assert store.pauses().keys() == {"trips", "gone", "half-way"}, "a person has paused it: a person resumes it"


def test_a_table_that_one_replica_registers_is_not_forgotten_by_the_others(store: Store) -> None:
    """Each replica names its own tables. If a table has only decisions, it is not known how long it has not
    been named.
    """
    for table in ("trips", "elsewhere", "of an older release"):
        note(store, TableId(table))
    for day in range(60):
        at = NOW + timedelta(days=day)
        forgotten(store, before=at - MONTH, registered=TRIPS, at=at)
        forgotten(store, before=at - MONTH, registered={TableId("elsewhere"): "/lake/elsewhere"}, at=at)
        if day == 29:
            assert noted(store) == {"trips", "elsewhere", "of an older release"}

    assert noted(store) == {"trips", "elsewhere"}


def test_a_daemon_that_was_away_for_long_forgets_no_table(store: Store) -> None:
    """No daemon was there to name the tables. If a catalog does not answer at the start, its tables are named later."""
    for table in ("trips", "in a catalog"):
        note(store, TableId(table))
    both = {**TRIPS, TableId("in a catalog"): "catalog:prod/sales.orders"}
    forgotten(store, before=NOW - MONTH, registered=both, at=NOW)
    later = NOW + 3 * MONTH

    forgotten(store, before=later - MONTH, registered=TRIPS, at=later)

    assert noted(store) == {"trips", "in a catalog"}


def test_however_short_runs_are_kept_a_table_is_not_forgotten_within_a_day(store: Store) -> None:
    """Every replica names its tables once an hour, at different moments."""
    for table in ("trips", "elsewhere"):
        note(store, TableId(table))
    forgotten(store, before=NOW, registered={TableId("elsewhere"): "/lake/elsewhere"}, at=NOW)

    forgotten(store, before=NOW + 23 * HOUR, registered=TRIPS, at=NOW + 23 * HOUR)

    assert noted(store) == {"trips", "elsewhere"}


def test_a_table_made_anew_does_not_keep_what_was_of_the_old_one(store: Store) -> None:
    """The last run of each service of a table stays, not of every table that ever had its name."""
    for life in range(3):
        ended(store, f"life{life}", at=NOW - MONTH, identity=f"/lake/trips#{life}")

    forgotten(store, before=NOW + HOUR, registered=TRIPS, at=NOW + MONTH)

    assert [run.id for run in store.runs()] == ["life2"]
    assert [store.epoch(identity=f"/lake/trips#{life}", service=Service.COMPACTION) for life in range(3)] == [0, 0, 1]


def test_a_long_history_is_forgotten_in_steps(store: Store) -> None:
    """However long it is, each step deletes few runs. Another writer can write between two steps."""
    for number in range(601):
        store.request(a_run(f"r{number:04}"))
        store.end(RunId(f"r{number:04}"), epoch=0, state=RunState.CANCELLED, outcome="enough", at=NOW - HOUR)
    steps = []
    for step in store.forget(registered=TRIPS, at=NOW, keep=timedelta(minutes=1)):
        store.decided([])
        store.mark_dirty(["/lake/trips"])
        steps.append(step)

    assert sum(steps) == 600
    assert max(steps) <= 500
    assert [run.id for run in store.runs()] == ["r0600"]


# -- many threads


def test_threads_that_write_at_once_all_succeed(store: Store) -> None:
    """No thread gets the error that the database is locked, and no epoch is given twice."""
    epochs, errors = list[int](), list[BaseException]()

    def work(thread: int) -> None:
        try:
            for number in range(12):
                run = claimed(store, f"r{thread}.{number}", service=list(Service)[thread])
                store.progress(run.id, epoch=run.epoch, step=Step.PLAN, instant=str(number))
                store.runs(limit=5)
                store.end(run.id, epoch=run.epoch, state=RunState.SUCCEEDED, outcome="completed", at=NOW)
                epochs.append(run.epoch)
        except BaseException as error:  # noqa: BLE001 - told in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert sorted(epochs) == sorted([*range(1, 13)] * 2)
    assert store.active() == []


# -- the rows about tables

QUESTION = ApprovalRow(
    table=TableId("trips"),
    service=Service.CLEAN,
    identity=str(IDENTITY),
    instant="00000030",
    files=24_000,
    files_in_table=53_000,
    partitions=0,
    asked_at=NOW,
    bytes=5 * 2**40,
    versions=70,
)
ALL_FILES = RewriteRow(
    table=TableId("trips"),
    service=Service.COMPACTION,
    identity=str(IDENTITY),
    mark="7-4711",
    asked_by="ada",
    asked_at=NOW,
)
STRUCK = ServiceStateRow(
    table=TableId("trips"),
    service=Service.COMPACTION,
    tries=2,
    strikes=3,
    suspect=True,
    rest_until=NOW + HOUR,
    rest_reason="it broke 3 times in a row",
    quarantined="it killed 3 JVMs",
    idle_after="00000010",
    idle_commits=4,
    idle_rewrites=5,
    idle_at=NOW,
    largest_plan=2**40,
    smaller_until=NOW + HOUR,
    smaller_reason="run 7 had 2 TiB to rewrite",
)
SEEN = a_lock_proof(TableId("trips"))
SIGNS = WriterSignsRow(table=TableId("trips"), hook_at=NOW, beat_at=NOW)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (QUESTION, replace(QUESTION, approved_by="ada", approved_at=NOW + HOUR)),
        (replace(QUESTION, instant=None, files_in_table=None), QUESTION),
        (ALL_FILES, replace(ALL_FILES, mark="9-4713")),
        (ServiceStateRow(table=STRUCK.table, service=STRUCK.service), STRUCK),
        (replace(SEEN, verdict="not yet known", without=None, seen_at=None, several=False, witnessed=0), SEEN),
        (replace(SIGNS, beat_at=None), SIGNS),
    ],
    ids=lambda row: type(row).__name__,
)
def test_a_row_is_kept_with_every_field_in_place_of_the_one_before(store: Store, before: Row, now: Row) -> None:
    """There is one for each table, or for each service of it."""
    other = replace(now, table=TableId("orders"))
    store.keep_row(before)
    store.keep_row(other)
    assert set(store.rows(type(now))) == {before, other}

    store.keep_row(now)
    assert set(store.rows(type(now))) == {now, other}


@pytest.mark.parametrize("row", [QUESTION, ALL_FILES, STRUCK], ids=lambda row: type(row).__name__)
def test_a_row_of_a_service_is_kept_until_it_is_forgotten(
    store: Store, row: ApprovalRow | RewriteRow | ServiceStateRow
) -> None:
    """Those of its other services stay. A row that is not there can be forgotten, too."""
    other = replace(row, service=Service.ARCHIVE)
    store.keep_row(row)
    store.keep_row(other)
    for table in (row.table, TableId("nowhere")):
        store.forget_row(type(row), table, row.service)

    assert list(store.rows(type(row))) == [other]
