"""What every store promises the road, whatever keeps its rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import location_of
from lakewarden.service.model.rows import ApprovalRow, DecisionRow, LockProofRow, StandingRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.memory import MemoryStore
from lakewarden.service.store.port import Store, SupersededError
from tests.support.replicas import ME, attend
from tests.support.values import IDENTITY, NOW, a_run

HOUR = timedelta(hours=1)
MONTH = timedelta(days=30)
TRIPS = {TableId("trips"): "/lake/trips"}


def epoch(store: Store) -> int:
    """Return the newest epoch of the lease that most tests are about."""
    return store.epoch(identity=str(IDENTITY), service=Service.COMPACTION)


def claimed(store: Store, run: str = "r1", **news: object) -> Run:
    """Request a run and claim it, as the replica that attends its table."""
    row = store.request(a_run(run, **news))
    return store.claim(row.id, owner=attend(store, location_of(row.identity)), at=NOW)


def forgotten(store: Store, *, before: datetime, registered: Mapping[TableId, str] = TRIPS, at: datetime = NOW) -> int:
    """Forget what is older, at a time of a replica that knows some tables; return how many runs went."""
    at = max(at, before)
    return sum(store.forget(registered=registered, at=at, keep=at - before))


def note(store: Store, table: TableId) -> None:
    """Keep one of each kind of note of a table."""
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
    store.keep_standing(StandingRow(table=table, service=service, strikes=1))
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
    store.keep_approval(approval)
    store.keep_lock_proof(a_lock_proof(table))
    store.pause(table, reason="migration", at=NOW)


def a_lock_proof(table: TableId) -> LockProofRow:
    """Return what was seen of a table's lock, with every field."""
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
    """Return the tables of which there are notes, as every kind of note has it."""
    decided = {
        table
        for table in ("trips", "gone", "half-way", "elsewhere", "in a catalog", "of an older release")
        if store.decisions(TableId(table))
    }
    assert decided == {row.table for row in store.standings()} == {row.table for row in store.approvals()}
    assert decided == {row.table for row in store.lock_proofs()}
    return decided


def ended(store: Store, run: str = "r1", *, at: datetime = NOW, **news: object) -> Run:
    """Request a run, claim it and end it."""
    row = claimed(store, run, **news)
    return store.end(row.id, epoch=row.epoch, state=RunState.SUCCEEDED, outcome="completed", at=at)


# -- requests


def test_a_requested_run_comes_back_as_it_was_given(store: Store) -> None:
    """Every field, at once and later."""
    run = a_run(instant="00000010")

    assert store.request(run) == run
    assert store.run(run.id) == run
    assert store.run(RunId("nobody")) is None


def test_a_service_of_a_table_has_one_active_run(store: Store) -> None:
    """Until it has ended, asking again brings the same run back, however far it has come."""
    first = store.request(a_run("r1"))
    assert store.request(a_run("r2")) == first

    running = store.claim(first.id, owner=attend(store, "/lake/trips"), at=NOW)
    assert store.request(a_run("r2")) == running

    store.end(running.id, epoch=running.epoch, state=RunState.FAILED, outcome="it broke", at=NOW)
    assert store.request(a_run("r3")).id == "r3"
    assert store.run(RunId("r2")) is None


def test_other_services_and_other_tables_have_active_runs_of_their_own(store: Store) -> None:
    """What counts is what the table is, not what it is called."""
    store.request(a_run("r1"))

    assert store.request(a_run("r2", service=Service.CLEAN)).id == "r2"
    assert store.request(a_run("r3", identity="/lake/orders#1")).id == "r3"
    assert store.request(a_run("r4", table=TableId("another name"))).id == "r1"


# -- claims and epochs


def test_every_claim_raises_the_epoch(store: Store) -> None:
    """The newest owner is known by the highest number, which never falls."""
    assert epoch(store) == 0

    epochs = [ended(store, run).epoch for run in ("r1", "r2", "r3")]

    assert epochs == [1, 2, 3]
    assert epoch(store) == 3


def test_a_claimed_run_is_running(store: Store) -> None:
    """With the time it was claimed at."""
    run = claimed(store)

    assert (run.state, run.started_at, run.epoch) == (RunState.RUNNING, NOW, 1)
    assert store.run(run.id) == run


def test_epochs_are_counted_per_table_and_service(store: Store) -> None:
    """Another service's owners change nothing."""
    claimed(store, "r1")
    claimed(store, "r2", service=Service.CLEAN)
    claimed(store, "r3", identity="/lake/orders#1")

    assert epoch(store) == 1


@pytest.mark.parametrize("how", [claimed, ended])
def test_only_a_queued_run_can_be_claimed(store: Store, how: Callable[[Store], Run]) -> None:
    """A second claim is refused and leaves the lease as it is."""
    run = how(store)

    with pytest.raises(SupersededError):
        store.claim(run.id, owner=ME, at=NOW)

    assert store.run(run.id) == run
    assert epoch(store) == 1


def test_a_run_that_does_not_exist_can_be_neither_claimed_nor_changed(store: Store) -> None:
    """Somebody else has taken it away."""
    with pytest.raises(SupersededError):
        store.claim(RunId("nobody"), owner=ME, at=NOW)
    with pytest.raises(SupersededError):
        store.progress(RunId("nobody"), epoch=1, state=RunState.RUNNING)
    with pytest.raises(SupersededError):
        store.end(RunId("nobody"), epoch=1, state=RunState.FAILED, outcome="", at=NOW)


# -- progress and endings


def test_progress_changes_what_is_given_and_nothing_else(store: Store) -> None:
    """State, step and instant come one after the other and stay."""
    run = claimed(store)

    store.progress(run.id, epoch=1, executor="a JVM")
    store.progress(run.id, epoch=1, instant="00000010")
    store.progress(run.id, epoch=1, step=Step.COMMIT, state=RunState.COMMITTING)
    store.progress(run.id, epoch=1)

    expected = claimed_like(run, executor="a JVM", instant="00000010", step=Step.COMMIT, state=RunState.COMMITTING)
    assert store.run(run.id) == expected


def claimed_like(run: Run, **news: object) -> Run:
    """Return what a claimed run looks like after some progress."""
    return a_run(run.id, **{"epoch": run.epoch, "owner": run.owner, "started_at": run.started_at, **news})


def test_an_ended_run_keeps_its_outcome_and_figures(store: Store) -> None:
    """Whole numbers, fractions and words alike."""
    run = claimed(store)
    figures: dict[str, int | float | str] = {"files_written": 3, "seconds": 1.5, "codec": "zstd"}

    given = store.end(run.id, epoch=1, state=RunState.SUCCEEDED, outcome="completed", at=NOW + HOUR, figures=figures)

    assert given == claimed_like(
        run, state=RunState.SUCCEEDED, outcome="completed", ended_at=NOW + HOUR, figures=figures
    )
    assert store.run(run.id) == given


def test_whatever_was_said_can_be_kept(store: Store) -> None:
    """An error of another program may hold what is no text: the run ends all the same, and the rest can be read."""
    run = claimed(store, reason="caf\u00e9 \0", requested_by="\ud800ada")

    store.end(run.id, epoch=1, state=RunState.FAILED, outcome="it \0 broke \udcff \U0001f980", at=NOW)
    store.pause(None, reason="\0", at=NOW)

    kept = store.run(run.id)
    assert kept is not None
    assert kept.reason.startswith("caf\u00e9 ")
    assert kept.requested_by.endswith("ada")
    assert re.fullmatch("it . broke . \U0001f980", kept.outcome or "", re.DOTALL)


def test_a_run_that_was_never_claimed_can_be_ended(store: Store) -> None:
    """It has no lease of its own, and needs none to be written off."""
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
    """A number that is not the lease's is too late, and changes nothing."""
    ended(store, "r1")
    run = claimed(store, "r2")
    assert run.epoch == 2

    with pytest.raises(SupersededError):
        act(store, run, number)

    assert store.run(run.id) == run


@LATE
def test_an_ended_run_never_changes_again(store: Store, act: Callable[[Store, Run, int], None]) -> None:
    """Not even by its own owner."""
    run = ended(store)

    with pytest.raises(SupersededError):
        act(store, run, run.epoch)

    assert store.run(run.id) == run


# -- reading


def test_active_runs_come_oldest_first(store: Store) -> None:
    """In the order they were asked for, whatever their state, without those that ended."""
    for number in (3, 1, 2):
        store.request(a_run(f"r{number}", identity=f"/lake/{number}#1"))
    running = store.claim(RunId("r1"), owner=attend(store, "/lake/1"), at=NOW)
    ended(store, "r4", identity="/lake/4#1")

    assert [run.id for run in store.active()] == ["r3", "r1", "r2"]
    assert running in store.active()


def test_runs_come_newest_first_and_can_be_chosen(store: Store) -> None:
    """By table, by service, by state, and not more than asked for."""
    ended(store, "r1")
    ended(store, "r2")
    store.request(a_run("r3"))
    store.request(a_run("r4", service=Service.CLEAN))
    store.request(a_run("r5", table=TableId("orders"), identity="/lake/orders#1"))

    def ids(**choice: object) -> list[str]:
        return [run.id for run in store.runs(**choice)]  # type: ignore[arg-type]

    assert ids() == ["r5", "r4", "r3", "r2", "r1"]
    assert ids(limit=2) == ["r5", "r4"]
    assert ids(table=TableId("orders")) == ["r5"]
    assert ids(service=Service.CLEAN) == ["r4"]
    assert ids(states=[RunState.SUCCEEDED]) == ["r2", "r1"]
    assert ids(table=TableId("trips"), states=[RunState.QUEUED, RunState.SUCCEEDED], limit=3) == ["r4", "r3", "r2"]
    assert ids(table=TableId("nobody")) == []


def test_the_instants_of_our_runs_are_remembered(store: Store) -> None:
    """Of this table and service only, ended or not, planned or taken up."""
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
    """Aware and to the microsecond, from whatever zone they came."""
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
    reason="no lock is named",
    remedy="name the lock",
    again_at=NOW + HOUR,
    decided_at=NOW,
)


def test_the_last_decision_of_each_service_is_kept(store: Store) -> None:
    """A new one takes the place of the one before; other services and tables keep theirs."""
    later = DecisionRow(
        table=TableId("trips"),
        service=Service.COMPACTION,
        decision="Due",
        reason="5 of 5 commits",
        remedy=None,
        again_at=None,
        decided_at=NOW + HOUR,
    )
    clean = DecisionRow(
        table=TableId("trips"),
        service=Service.CLEAN,
        decision="NotDue",
        reason="1 of 5 commits",
        remedy=None,
        again_at=None,
        decided_at=NOW,
    )
    store.decided([DECISION, clean])
    store.decided([later])

    assert store.decisions(TableId("trips")) == [clean, later]  # by the services' names
    assert store.decisions(TableId("orders")) == []


def test_pauses_hold_until_they_are_ended(store: Store) -> None:
    """One per table and a global one; pausing again gives a new reason; ending what does not hold does nothing."""
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
    """However old it is: it is what people ask for."""
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
    """A lease is not forgotten while the table's last run is there."""
    for run in ("r1", "r2", "r3"):
        ended(store, run, at=NOW - 2 * MONTH)

    forgotten(store, before=NOW - HOUR, registered=TRIPS)

    assert claimed(store, "r4").epoch == 4


def test_what_is_kept_of_a_table_that_nobody_registers_any_more_goes(store: Store) -> None:
    """Its runs, its leases and every note of it but its pause: once no replica has named it for the time that runs are
    kept. What has not ended stays, and so does all of the others.
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
    """Each names its own; and of one that decisions tell of nobody knows yet how long it has not been named."""
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
    """Nobody was there to name any; a catalog that does not answer at its start has its tables named later."""
    for table in ("trips", "in a catalog"):
        note(store, TableId(table))
    both = {**TRIPS, TableId("in a catalog"): "catalog:prod/sales.orders"}
    forgotten(store, before=NOW - MONTH, registered=both, at=NOW)
    later = NOW + 3 * MONTH

    forgotten(store, before=later - MONTH, registered=TRIPS, at=later)

    assert noted(store) == {"trips", "in a catalog"}


def test_however_short_runs_are_kept_a_table_is_not_forgotten_within_a_day(store: Store) -> None:
    """Every replica names its tables once an hour, and not at the same moment."""
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
    """However long: each step takes few runs, and another writer finds its place between any two."""
    for number in range(1201):
        store.request(a_run(f"r{number:04}"))
        store.end(RunId(f"r{number:04}"), epoch=0, state=RunState.CANCELLED, outcome="enough", at=NOW - HOUR)
    steps = []
    for step in store.forget(registered=TRIPS, at=NOW, keep=timedelta(minutes=1)):
        store.decided([])
        store.mark_dirty(["/lake/trips"])
        steps.append(step)

    assert sum(steps) == 1200
    if not isinstance(store, MemoryStore):
        assert max(steps) <= 500
    assert [run.id for run in store.runs()] == ["r1200"]


# -- many threads


def test_threads_that_ask_at_once_get_one_run(store: Store) -> None:
    """Whoever comes first makes the row; all others are given it."""
    given = list[Run]()
    threads = [
        threading.Thread(target=lambda name: given.append(store.request(a_run(name))), args=(f"r{number}",))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(given) == 8
    assert len({run.id for run in given}) == 1
    assert len(store.active()) == 1


def test_threads_that_write_at_once_all_succeed(store: Store) -> None:
    """None is told that the database is locked, and no epoch is given twice."""
    epochs, troubles = list[int](), list[BaseException]()

    def work(thread: int) -> None:
        try:
            for number in range(12):
                run = claimed(store, f"r{thread}.{number}", service=list(Service)[thread])
                store.progress(run.id, epoch=run.epoch, step=Step.PLAN, instant=str(number))
                store.runs(limit=5)
                store.end(run.id, epoch=run.epoch, state=RunState.SUCCEEDED, outcome="completed", at=NOW)
                epochs.append(run.epoch)
        except BaseException as trouble:  # noqa: BLE001 - told in the test's own thread
            troubles.append(trouble)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert troubles == []
    assert sorted(epochs) == sorted([*range(1, 13)] * 2)
    assert store.active() == []


# -- approvals

QUESTION = ApprovalRow(
    table=TableId("trips"),
    service=Service.CLEAN,
    identity=str(IDENTITY),
    instant="00000030",
    files=24_000,
    files_in_table=53_000,
    partitions=0,
    asked_at=NOW,
)


def test_a_question_for_approval_is_kept_until_it_is_forgotten(store: Store) -> None:
    """One for each service of a table, each in place of the one before, with its answer."""
    answered = replace(QUESTION, approved_by="ada", approved_at=NOW + HOUR)
    other = replace(QUESTION, service=Service.ARCHIVE, instant=None, files_in_table=None)
    store.keep_approval(QUESTION)
    store.keep_approval(other)
    assert set(store.approvals()) == {QUESTION, other}

    store.keep_approval(answered)
    assert set(store.approvals()) == {answered, other}

    store.forget_approval(TableId("trips"), Service.CLEAN)
    store.forget_approval(TableId("nowhere"), Service.CLEAN)
    assert set(store.approvals()) == {other}


# -- lock proofs


def test_what_was_seen_of_a_lock_is_kept_in_place_of_what_was_seen_before(store: Store) -> None:
    """One for each table, with every field."""
    known, other = a_lock_proof(TableId("trips")), a_lock_proof(TableId("orders"))
    unknown = replace(known, verdict="not yet known", without=None, seen_at=None, several=False, witnessed=0)

    store.keep_lock_proof(unknown)
    store.keep_lock_proof(other)
    assert {row.table: row for row in store.lock_proofs()} == {known.table: unknown, other.table: other}

    store.keep_lock_proof(known)
    assert {row.table: row for row in store.lock_proofs()} == {known.table: known, other.table: other}


# -- standings


def test_a_standing_is_kept_until_it_is_forgotten(store: Store) -> None:
    """One for each service of a table, each in place of the one before, with every field."""
    struck = StandingRow(
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
    other = StandingRow(table=TableId("trips"), service=Service.CLEAN)
    store.keep_standing(replace(struck, strikes=2, suspect=False))
    store.keep_standing(struck)
    store.keep_standing(other)
    assert set(store.standings()) == {struck, other}

    store.forget_standing(TableId("trips"), Service.COMPACTION)
    store.forget_standing(TableId("nowhere"), Service.CLEAN)
    assert set(store.standings()) == {other}
