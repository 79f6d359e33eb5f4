"""An explanation of a table, put together from values, as JSON and as text."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State, Step, Timeline
from lakewarden.planners.model.table import Mode, Policy, SettingOrigin, Table, TableId
from lakewarden.planners.model.view import (
    Backlog,
    Blocker,
    InnerTable,
    TableIdentity,
    TableView,
    WriteFailure,
    WriterActivity,
)
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.model.rows import ApprovalRow, DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.explain import TableExplanation, explain, written_out
from lakewarden.service.rules.forecast import Basis, Forecast
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.service_states import Retries

NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
ORDERS = TableId("sales.orders")
POLICIES = {
    Service.CLEAN: Policy(trigger=NumCommits(at_least=1)),
    Service.COMPACTION: Policy(
        trigger=NumCommits(at_least=5), spark="large", session={"spark.sql.shuffle.partitions": "64"}
    ),
}
TABLE = Table(
    id=ORDERS, format="hudi", location="/data/orders", mode=Mode.ACT, poll=timedelta(seconds=5), policies=POLICIES
)


def _ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def _write(time: str, begun: float, guard: float | None) -> Instant:
    return Instant(
        time=time,
        action="deltacommit",
        stands_for=InstantKind.WRITE,
        state=State.INFLIGHT,
        requested_at=_ago(begun),
        guarded_until=None if guard is None else NOW + timedelta(seconds=guard),
    )


PLAN = Instant(
    time="20260301025500000",
    action="compaction",
    stands_for=Service.COMPACTION,
    state=State.REQUESTED,
    requested_at=_ago(300),
    author=RunId("run-7"),
)
VIEW = TableView(
    identity=TableIdentity(location="/data/orders", created="1"),
    name="orders",
    kind="MERGE_ON_READ",
    version="9",
    observed_at=_ago(2),
    timeline=Timeline(instants=(PLAN,)),
    writers=WriterActivity(
        in_flight=(_write("20260301025958000", 2, 178), _write("20260301025900000", 60, None)),
        last_commit_at=_ago(12),
        usual_interval=timedelta(seconds=5),
        non_blocking=True,
    ),
    backlogs={
        Service.COMPACTION: Backlog(commits=3, commits_since_request=1, log_files=7, log_bytes=3 * 2**20),
        Service.CLEAN: Backlog(commits=4, commits_since_request=4, since=_ago(60)),
    },
    blockers=(Blocker(reason="a write has no heartbeat", remedy="make it\nLAZY", services=frozenset({Service.CLEAN})),),
    warnings=("the lock is for trials",),
    inner=(InnerTable(name="metadata table", commits=12, since=_ago(7200), pinned_by="write 20260301025900000"),),
)
RUNNING = Run(
    id=RunId("run-8"),
    table=ORDERS,
    identity="x",
    service=Service.COMPACTION,
    state=RunState.RUNNING,
    reason="our plan waits",
    requested_by="policy",
    created_at=_ago(20),
    step=Step.EXECUTE,
)
ENDED = replace(
    RUNNING,
    id=RunId("run-6"),
    service=Service.CLEAN,
    state=RunState.FAILED,
    started_at=_ago(200),
    ended_at=_ago(185),
    outcome="disk full",
    figures={"plan_seconds": 1.5},
)
APPROVAL = ApprovalRow(
    table=TABLE.id,
    service=Service.CLEAN,
    identity="one",
    instant=None,
    files=30,
    files_in_table=36,
    partitions=1,
    asked_at=_ago(40),
    retained="20260301025700000",
)
STATUS = TableStatus(
    table=TABLE,
    view=VIEW,
    active=(RUNNING,),
    approvals={Service.CLEAN: APPROVAL},
    retries={
        Service.COMPACTION: Retries(times=4, reason="a write"),
        Service.CLEAN: Retries(times=5, reason="disk full"),
    },
    writer_failures=(
        Blamed(
            failure=WriteFailure(instant="20260301025800000", at=_ago(70), reason="rolled back"), run=RunId("run-6")
        ),
    ),
)
DECIDED = (
    DecisionRow(
        table=ORDERS,
        service=Service.CLEAN,
        decision="Blocked",
        reason="backing off: disk full",
        remedy="make room",
        again_at=NOW + timedelta(seconds=90),
        decided_at=_ago(30),
    ),
)


def test_plans_that_are_made_smaller_are_told_with_the_reason() -> None:
    """Whoever wonders why a backlog goes slowly reads since which run, and until when."""
    smaller = {Service.CLEAN: "plans rewrite 60GiB at most until 2026-03-08, for run r1 had 120GiB to rewrite: it hung"}

    assert smaller[Service.CLEAN] in written_out(_explained(replace(STATUS, smaller=smaller)))


def test_a_plan_that_can_bear_no_signature_is_ours_where_a_run_of_ours_has_named_it() -> None:
    """A clean that waits for approval is nobody else's, and an index that is being built neither."""
    clean = replace(PLAN, time="20260301025600000", action="clean", stands_for=Service.CLEAN, author=None)
    view = replace(VIEW, timeline=Timeline(instants=(PLAN, clean)))
    last = replace(ENDED, instant=clean.time)

    def shown(last_runs: dict[Service, Run]) -> bool:
        status = replace(STATUS, view=view)
        found = explain(status, decided=DECIDED, last_runs=last_runs, waiting={}, now=NOW)
        [plan] = found.services["clean"].pending
        return plan.ours

    assert shown({Service.CLEAN: last})
    assert not shown({Service.CLEAN: ENDED})


def _explained(status: TableStatus = STATUS) -> TableExplanation:
    return explain(
        status,
        decided=DECIDED,
        last_runs={Service.CLEAN: ENDED},
        waiting={RUNNING.id: "clean run-9"},
        now=NOW,
        polled_ago=timedelta(seconds=2),
    )


def test_an_explanation_holds_all_that_is_known_of_a_service() -> None:
    """Decision, backlog, plans, run and last run stand together, whatever order the policies have."""
    explanation = _explained()
    compaction, clean = explanation.services["compaction"], explanation.services["clean"]

    assert list(explanation.services) == ["compaction", "clean"]
    assert compaction.decision is None
    assert compaction.backlog is not None
    assert (compaction.backlog.commits, compaction.backlog.log_bytes) == (3, 3 * 2**20)
    assert [(plan.instant, plan.ours) for plan in compaction.pending] == [(PLAN.time, True)]
    assert compaction.active_run is not None
    assert (compaction.active_run.step, compaction.active_run.waits_for) == ("execute", "clean run-9")
    assert clean.decision is not None
    assert (clean.decision.decision, clean.decision.remedy) == ("Blocked", "make room")
    assert (clean.decision.decided_at, clean.decision.again_at) == (_ago(30), NOW + timedelta(seconds=90))
    assert clean.last_run is not None
    assert (clean.last_run.state, clean.last_run.run_seconds) == ("FAILED", 15)
    assert compaction.approval is None
    assert clean.approval is not None
    assert (clean.approval.files, clean.approval.files_in_table, clean.approval.partitions) == (30, 36, 1)
    assert clean.forecast is None


def test_the_text_is_aligned_and_what_stands_still_is_loud() -> None:
    """At three in the morning capitals are found first, and each line begins with what it is about."""
    assert written_out(_explained()).splitlines() == [
        "sales.orders  hudi MERGE_ON_READ version 9  /data/orders",
        "  mode            act",
        "  last poll       2s ago; every 5s, sooner after a hook",
        "  BLOCKED         clean: a write has no heartbeat",
        "                  -> make it",
        "                     LAZY",
        "  warning         the lock is for trials",
        "  last commit     12s ago; usually every 5s",
        "  writers         without blocking: they check no conflicts, and compaction waits for none of them",
        "  write in flight 20260301025958000, begun 2s ago, heartbeat good for 2m 58s",
        "  write in flight 20260301025900000, begun 1m ago, no heartbeat",
        "  WRITE FAILED    20260301025800000, 1m 10s ago: rolled back (it met our run run-6)",
        "  metadata table  12 commits since its last compaction, 2h ago",
        "                  its compaction is prevented by write 20260301025900000",
        "",
        "compaction",
        "  decision        none yet",
        "  due when        5 commits since the last one",
        "  spark           large; spark.sql.shuffle.partitions=64",
        "  backlog         3 commits, 1 since the last request; at most 7 log files in a file group; "
        "at most 3.0 MiB of log files in a file group",
        "  pending         20260301025500000 requested 5m ago, ours",
        "  RUNNING         run-8 RUNNING at execute, requested 20s ago: our plan waits",
        "                  waits for clean run-9",
        "  last run        none",
        "",
        "clean",
        "  BLOCKED         backing off: disk full",
        "                  -> make room",
        "  decided         30s ago",
        "  again           in 1m 30s (2026-03-01 03:01:30Z), or when the table changes",
        "  deletes         30 of 36 files and 1 partition for good; everything from commit 20260301025700000 on stays; "
        "asked 40s ago",
        "  STALLED         it yielded 5 times in a row, the last time because: disk full",
        "  due when        1 commit since the last one",
        "  spark           default",
        "  backlog         4 commits, 4 since the last request",
        "  last run        FAILED 3m 5s ago, took 15s: disk full (run-6)",
    ]


def test_a_table_that_was_never_looked_at_is_explained_without_guesses() -> None:
    """What comes from the table is missing until it was observed; its trouble and its pause are shown."""
    status = TableStatus(table=replace(TABLE, policies={}), failure="no such bucket", paused="migration")

    explanation = explain(status, decided=(), last_runs={}, waiting={}, now=NOW)

    assert (explanation.writers, explanation.inner, explanation.kind) == (None, [], None)
    assert written_out(explanation).splitlines() == [
        "sales.orders  hudi  /data/orders",
        "  mode            act",
        "  PAUSED          migration",
        "  last poll       not yet",
        "  FAILURE         no such bucket",
        "",
        "no service has a policy: the table is only observed",
    ]


def test_a_long_list_of_what_is_held_back_is_short() -> None:
    """What has a policy stands in front, what no table of the format has is not named, and the rest is counted."""
    held = Blocker(reason="a savepoint is in flight", remedy="", services=frozenset(Service) - {Service.SAVEPOINT})
    known = dict.fromkeys(
        (Service.ARCHIVE, Service.COMPACTION, Service.CLEAN, Service.TTL, Service.ROLLBACK, Service.CLUSTERING),
        Backlog(),
    )
    explanation = _explained(replace(STATUS, view=replace(VIEW, backlogs=known, blockers=(held,))))

    assert explanation.blockers[0].services == ["clean", "compaction", "archive", "clustering", "rollback", "ttl"]
    said = "  BLOCKED         clean, compaction, archive, clustering and 2 more: a savepoint is in flight"
    assert said in written_out(explanation).splitlines()


def test_a_moment_that_has_passed_is_not_announced() -> None:
    """The next look decides anew, whatever o'clock it was to be."""
    late = [replace(row, again_at=_ago(5)) for row in DECIDED]
    explanation = explain(STATUS, decided=late, last_runs={}, waiting={}, now=NOW)

    assert "  again           at the next poll, or when the table changes" in written_out(explanation).splitlines()


def test_a_write_that_has_failed_is_not_in_flight() -> None:
    """It is named once, although its instant stays on the timeline until it is rolled back."""
    dead = WriteFailure(instant="20260301025900000", at=_ago(30), reason="its heartbeat expired")
    view = replace(VIEW, writers=replace(VIEW.writers, failures=(dead,)))
    explanation = _explained(replace(STATUS, view=view))

    assert explanation.writers is not None
    assert [write.instant for write in explanation.writers.in_flight] == ["20260301025958000"]


def test_a_service_that_runs_is_not_called_not_due() -> None:
    """The line of its run says all."""
    row = replace(
        DECIDED[0], service=Service.COMPACTION, decision="NotDue", code="run_active", reason="run run-8 is active"
    )
    text = written_out(explain(STATUS, decided=[row], last_runs={}, waiting={}, now=NOW))

    assert "  RUNNING         run-8" in text
    assert "not due" not in text
    ended = written_out(explain(replace(STATUS, active=()), decided=[row], last_runs={}, waiting={}, now=NOW))
    assert "  not due         run run-8 is active" in ended.splitlines()


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("quarantined", "when an operator releases it"),
        ("approval_needed", "when an operator approves it, or when the table changes"),
        ("other", "when the table changes"),
    ],
)
def test_what_a_person_ends_says_so(code: str, ends: str) -> None:
    """A change of the table ends no quarantine."""
    decided = [replace(row, code=code, again_at=None) for row in DECIDED]
    explanation = explain(STATUS, decided=decided, last_runs={}, waiting={}, now=NOW)

    assert f"  again           {ends}" in written_out(explanation).splitlines()


def test_a_priority_is_told_where_there_is_one() -> None:
    """It says who comes first where slots are few."""
    policies = {**TABLE.policies, Service.CLEAN: replace(TABLE.policies[Service.CLEAN], priority=20)}
    explanation = _explained(replace(STATUS, table=replace(TABLE, policies=policies)))

    assert [service.priority for service in explanation.services.values()] == [0, 20]
    assert [line for line in written_out(explanation).splitlines() if "priority" in line] == ["  priority        20"]


def test_what_a_run_would_do_is_told_with_what_that_is_based_on() -> None:
    """Numbers that are not known are left out. Without a past nothing is made up."""
    forecasts = {
        Service.COMPACTION: Forecast(
            files=31,
            bytes=3 * 2**20,
            writes=8,
            length=timedelta(seconds=70),
            core_seconds=96.0,
            runs=12,
            basis=Basis.OWN,
        ),
        Service.CLEAN: Forecast(deletes=1, deletes_bytes=2048, versions=7),
    }
    status = replace(STATUS, approvals={})
    explanation = explain(status, decided=(), last_runs={}, waiting={}, now=NOW, forecasts=forecasts)
    assert [line for line in written_out(explanation).splitlines() if "a run now" in line] == [
        "  a run now       reads 31 files, 3.0 MiB; writes 8 files; about 1m 10s, 96 core-seconds "
        "(from 12 runs of this table)",
        "  a run now       deletes 1 file, 2.0 KiB; 7 versions of the table go; "
        "no history yet: how long it takes is not known",
    ]

    waiting = explain(STATUS, decided=(), last_runs={}, waiting={}, now=NOW, forecasts=forecasts)
    assert waiting.services["clean"].forecast is None, "the approval has the figures"


def test_each_value_is_told_with_the_place_where_it_is_written() -> None:
    """A value that is built in has no place."""
    sources = {
        "mode": SettingOrigin(level="defaults", line=3),
        "poll": SettingOrigin(level="policy streams", line=9),
        "services.clean.trigger": SettingOrigin(level="table", line=20),
    }
    table = replace(TABLE, sources=sources, file="lakewarden.yaml")
    lines = written_out(_explained(replace(STATUS, table=table))).splitlines()
    assert "  mode            act  [defaults, lakewarden.yaml:3]" in lines
    assert "  last poll       2s ago; every 5s, sooner after a hook  [policy streams, lakewarden.yaml:9]" in lines
    assert "  due when        1 commit since the last one  [table, lakewarden.yaml:20]" in lines
    assert "  due when        5 commits since the last one" in lines


def test_rare_polls_are_told_with_their_reason() -> None:
    """An operator who wonders about a quiet table reads that hooks announce its commits."""
    lines = written_out(_explained(replace(STATUS, polled_every=timedelta(seconds=60)))).splitlines()
    assert "  last poll       2s ago; every 1m, because hooks announce each commit. Without them every 5s" in lines
