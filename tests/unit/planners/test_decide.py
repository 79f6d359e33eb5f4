"""One pure function decides what is due, what is not, and what must not run."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.decide import Backoff, Idle, ServiceState, decide, last_change, next_decision_at
from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, Due, NotDue, WouldRun, remedy_of
from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State
from lakewarden.planners.model.table import Mode, Policy, Scheduling
from lakewarden.planners.model.view import Backlog, Blocker, TableView
from lakewarden.planners.model.window import Window
from lakewarden.planners.triggers import AllOf, NumCommits, NumRewrites, TimeElapsed
from tests.support.values import NOW, a_view, an_instant

MINUTE = timedelta(minutes=1)
READY = Backlog(commits=5, commits_since_request=5, since=NOW - MINUTE)
POLICY = Policy(trigger=NumCommits(at_least=5), grace=10 * MINUTE)
ACT = ServiceState(mode=Mode.ACT)
WRITE = an_instant(time="00000010")
PLAN = an_instant(
    time="00000020",
    action="compaction",
    stands_for=Service.COMPACTION,
    state=State.REQUESTED,
    requested_at=NOW - 5 * MINUTE,
)
OURS = replace(PLAN, author=RunId("earlier"))


def decided(
    *instants: Instant,
    service_state: ServiceState = ACT,
    policy: Policy = POLICY,
    asked: bool = False,
    service: Service = Service.COMPACTION,
    backlog: Backlog = READY,
    **view: Any,
) -> Decision:
    """Decide on a table with these instants. Its backlog fires unless the test says otherwise."""
    return decide(
        service=service,
        view=a_view(WRITE, *instants, **{"backlogs": {service: backlog}, **view}),
        policy=policy,
        service_state=service_state,
        now=NOW,
        asked=asked,
    )


# -- a new plan


def test_a_firing_trigger_is_due_with_its_reason() -> None:
    """The trigger's own words are the reason, and no instant means a new plan."""
    assert decided() == Due(reason="5 of 5 commits since the last one", instant=None)


def test_a_trigger_that_waits_is_not_due_and_tells_when_to_look_again() -> None:
    """The decision has the trigger's time."""
    policy = Policy(trigger=TimeElapsed(at_least=3 * MINUTE))

    assert decided(policy=policy) == NotDue(reason="1m of 3m since the last one", again_at=NOW + 2 * MINUTE)


def test_what_a_table_has_no_backlog_for_is_never_due() -> None:
    """If the format counts nothing for a service, the service has nothing to do, even on request."""
    expected = NotDue(reason="the table has nothing for it to do")

    assert decided(backlogs={}) == expected
    assert decided(backlogs={}, asked=True) == expected


def test_a_format_says_why_a_service_has_nothing_to_do_now() -> None:
    """The reason is the format's own, and so is the moment at which time alone may change it."""
    resting = NotDue(reason="its partitions were changed a moment ago", again_at=NOW + MINUTE)

    assert decided(backlogs={}, at_rest={Service.COMPACTION: resting}) == resting


def test_plans_that_writers_make_are_not_made_by_us() -> None:
    """With `schedule: writer` Lakewarden only executes."""
    policy = replace(POLICY, schedule=Scheduling.WRITER)

    assert decided(policy=policy) == NotDue(reason="its plans are made by the table's writers")


def test_our_plan_is_taken_up_although_an_older_one_is_left_to_its_writer() -> None:
    """A foreign plan that is left alone must not delay our own work."""
    newer = replace(OURS, time="00000030")

    assert decided(PLAN, newer) == Due(reason="Lakewarden's plan 00000030 waits to be completed", instant="00000030")


def test_what_a_dead_run_has_left_is_due_whatever_the_trigger_says() -> None:
    """It may block every other service, so it does not wait for the next day."""
    left = Backlog(unfinished="savepoint 1 was left unfinished")
    assert decided(backlog=left) == Due(reason="savepoint 1 was left unfinished")


def test_what_a_dead_run_has_left_rests_as_long_as_the_last_run_asked_for() -> None:
    """That run could not end it yet. Otherwise run follows run, as fast as they end."""
    left, later = Backlog(unfinished="an act is under way"), NOW + timedelta(minutes=5)
    rests = replace(ACT, backoff=Backoff(until=later, reason="nothing to do: readers are waited for", failed=False))
    assert decided(backlog=left, service_state=rests) == NotDue(
        reason="nothing to do: readers are waited for", again_at=later
    )
    over = replace(ACT, backoff=Backoff(until=NOW, reason="nothing to do: readers are waited for", failed=False))
    assert isinstance(decided(backlog=left, service_state=over), Due)


def test_asking_skips_the_trigger() -> None:
    """An operator need not wait for the trigger."""
    assert isinstance(decided(backlog=Backlog(commits=1)), NotDue)
    assert decided(backlog=Backlog(commits=1), asked=True) == Due(reason="requested manually")


# -- idle


def test_a_service_that_found_nothing_to_do_waits_for_a_change() -> None:
    """The trigger is not asked while the newest change is the one that the service already examined. An operator may
    know more.
    """
    idle = replace(ACT, idle=Idle(after="1 until 00000010", commits=5))

    assert decided(service_state=idle) == NotDue(
        reason="the last run did all there was to do, and nothing has changed since"
    )
    assert isinstance(decided(service_state=idle, asked=True), Due)


def test_commits_that_brought_no_work_are_not_counted_again() -> None:
    """After a new write the trigger counts from where nothing was found."""
    idle = replace(ACT, idle=Idle(after="00000009", commits=3))

    assert decided(service_state=idle) == NotDue(reason="2 of 5 commits since the last one")
    grown = Backlog(commits=8, commits_since_request=8)
    assert decided(service_state=idle, backlog=grown) == Due(reason="5 of 5 commits since the last one")


def test_an_idle_count_from_before_the_last_completion_means_nothing() -> None:
    """If the service has completed since, the backlog is smaller than the old count, and all of it counts."""
    idle = replace(ACT, idle=Idle(after="00000009", commits=9))

    assert isinstance(decided(service_state=idle), Due)


# -- a pending plan


def test_our_own_pending_plan_is_due_at_once_whatever_the_trigger_says() -> None:
    """Our own plans are always finished. They are recognised by their author, or by the store."""
    expected = Due(reason="Lakewarden's plan 00000020 waits to be completed", instant="00000020")

    assert decided(OURS, backlog=Backlog()) == expected
    assert decided(PLAN, service_state=replace(ACT, ours=frozenset({PLAN.time})), backlog=Backlog()) == expected


def test_a_plan_of_another_service_is_not_taken_up() -> None:
    """A pending clean does not concern compaction."""
    clean = replace(OURS, stands_for=Service.CLEAN)

    assert decided(clean) == Due(reason="5 of 5 commits since the last one", instant=None)


def test_a_plan_under_a_live_heartbeat_is_left_to_its_executor() -> None:
    """The service is blocked until the heartbeat runs out, and due from that moment on."""
    guarded = replace(OURS, guarded_until=NOW + MINUTE)

    assert decided(guarded) == Blocked(
        reason="instant 00000020 is guarded by the heartbeat of its executor", again_at=NOW + MINUTE
    )
    assert isinstance(decided(replace(OURS, guarded_until=NOW)), Due)


def test_a_writers_plan_is_left_to_the_writer_where_the_policy_says_so() -> None:
    """With `schedule: daemon` a writer may be about to execute its own plan. The block names the remedy."""
    decision = decided(PLAN)

    assert isinstance(decision, Blocked)
    assert decision.reason == "plan 00000020 was made by a writer, and schedule: daemon leaves it to that writer"
    assert decision.remedy is not None
    assert "schedule: both" in decision.remedy


@pytest.mark.parametrize("schedule", [Scheduling.WRITER, Scheduling.BOTH])
def test_a_writers_plan_is_taken_up_after_its_grace(schedule: Scheduling) -> None:
    """If writers leave execution to Lakewarden, they still get some time to execute the plan themselves."""
    policy = replace(POLICY, schedule=schedule)
    ripe = replace(PLAN, requested_at=NOW - policy.grace)

    for asked in (False, True):  # an operator's request does not shorten it
        assert decided(PLAN, policy=policy, asked=asked) == NotDue(
            reason="plan 00000020 of another author is left to it for a grace time", again_at=NOW + 5 * MINUTE
        )
    assert decided(ripe, policy=policy) == Due(
        reason="plan 00000020 of another author waits to be executed", instant="00000020"
    )


def test_an_unfinished_clean_of_any_author_is_finished_after_its_grace() -> None:
    """No clean can be planned beside a pending one. If it stayed for ever, the table would never be cleaned again."""
    clean = replace(PLAN, stands_for=Service.CLEAN, requested_at=NOW - POLICY.grace)

    decision = decided(clean, service=Service.CLEAN)

    assert isinstance(decision, Due)
    assert decision.instant == clean.time


# -- what holds a service back, in the order of precedence

BLOCKER = Blocker(reason="no lock is configured", remedy="name the lock")
ACTIVE = "active"
HOLDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    ACTIVE: ({"active": RunId("r7")}, {}, "run r7 is active"),
    "observed": ({"mode": Mode.OBSERVE}, {}, "the table is only observed"),
    "paused": ({"paused": "migration"}, {}, "paused: migration"),
    "quarantined": ({"quarantined": "5 failures"}, {}, "in quarantine: 5 failures"),
    "faulty": (
        {},
        {"faults": ("a.commit is cut off",)},
        "the table's metadata cannot be read whole: a.commit is cut off",
    ),
    "a blocker": ({}, {"blockers": (BLOCKER,)}, "no lock is configured"),
    "resting": ({"backoff": Backoff(until=NOW + MINUTE, reason="conflict")}, {}, "backing off: conflict"),
}
"""What holds a service back, in the order of precedence: changes of the state, of the view, and the reason."""


def held_by(*names: str, plans: tuple[Instant, ...] = (), asked: bool = False) -> Decision:
    """Decide on a table that fires and is held back by each of these."""
    service_state, view = dict[str, Any](), dict[str, Any]()
    for name in names:
        service_state.update(HOLDS[name][0])
        view.update(HOLDS[name][1])
    return decided(*plans, service_state=replace(ACT, **service_state), asked=asked, **view)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("plans", [(), (OURS,)], ids=["new plan", "pending plan"])
@pytest.mark.parametrize("hold", HOLDS)
def test_each_hold_stops_new_and_pending_plans_and_is_never_skipped_by_asking(
    hold: str, plans: tuple[Instant, ...], asked: bool
) -> None:
    """Every hold has its own reason. An active run is no block, all others are."""
    decision = held_by(hold, plans=plans, asked=asked)

    assert decision.reason == HOLDS[hold][2]
    assert isinstance(decision, NotDue if hold == ACTIVE else Blocked)


@pytest.mark.parametrize(("graver", "lighter"), list(itertools.combinations(HOLDS, 2)))
def test_of_two_holds_the_graver_is_told(graver: str, lighter: str) -> None:
    """The order is: the operator's, the table's, then Lakewarden's. The first one to be solved is shown."""
    assert held_by(graver, lighter).reason == HOLDS[graver][2]


@pytest.mark.parametrize(
    ("hold", "remedy"),
    [
        ("observed", "set its mode"),
        ("paused", "resume it: `lakewarden tables resume TABLE`"),
        ("quarantined", "`lakewarden quarantine release TABLE compaction`"),
        ("a blocker", "name the lock"),
    ],
)
def test_a_block_that_a_person_can_lift_says_how(hold: str, remedy: str) -> None:
    """A command can be pasted: it names the table and the service."""
    decision = held_by(hold)

    assert isinstance(decision, Blocked)
    assert remedy in (decision.remedy or "")


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("asked", [False, True])
def test_a_service_without_a_meaning_for_the_table_does_not_apply(mode: Mode, asked: bool) -> None:
    """It blocks nothing, in no mode, and an operator has nothing to lift. The other services go on."""
    moot = Blocker(reason="it has no log files", remedy="none", services=frozenset({Service.COMPACTION}), moot=True)
    view = replace(a_view(), blockers=(moot,), backlogs={Service.COMPACTION: READY, Service.CLEAN: READY})
    state = ServiceState(mode=mode, paused="a test" if asked else None)
    said = {
        service: decide(service=service, view=view, policy=POLICY, service_state=state, now=NOW, asked=asked)
        for service in (Service.COMPACTION, Service.CLEAN)
    }

    assert said[Service.COMPACTION] == DoesNotApply(reason="it has no log files")
    assert not isinstance(said[Service.CLEAN], DoesNotApply)
    assert next_decision_at([said[Service.COMPACTION]]) is None


def test_a_blocker_of_another_service_does_not_concern_this_one() -> None:
    """What blocks a clean does not block a compaction."""
    others = replace(BLOCKER, services=frozenset({Service.CLEAN}))

    assert isinstance(decided(blockers=(others,)), Due)
    assert isinstance(decided(blockers=(others, BLOCKER)), Blocked)


def test_a_rest_that_is_over_holds_nothing_back() -> None:
    """At the moment when it ends, the service is due again. Until then the decision names that moment."""
    resting = decided(service_state=replace(ACT, backoff=Backoff(until=NOW + MINUTE, reason="conflict")))

    assert isinstance(resting, Blocked)
    assert resting.again_at == NOW + MINUTE
    assert isinstance(decided(service_state=replace(ACT, backoff=Backoff(until=NOW, reason="conflict"))), Due)


def test_a_service_that_will_have_nothing_to_do_for_a_while_is_not_blocked() -> None:
    """It has not failed, so a request or a pending plan runs meanwhile."""
    quiet = replace(ACT, backoff=Backoff(until=NOW + MINUTE, reason="nothing to do", failed=False))

    assert decided(service_state=quiet) == NotDue(reason="nothing to do", again_at=NOW + MINUTE)
    assert isinstance(decided(service_state=quiet, asked=True), Due)
    assert isinstance(decided(OURS, service_state=quiet), Due)
    over = replace(ACT, backoff=Backoff(until=NOW, reason="nothing to do", failed=False))
    assert isinstance(decided(service_state=over), Due)


@pytest.mark.parametrize("plans", [(), (OURS,)], ids=["new plan", "pending plan"])
@pytest.mark.parametrize("asked", [False, True])
def test_a_table_that_is_only_planned_for_shows_what_would_run(plans: tuple[Instant, ...], asked: bool) -> None:
    """Mode `plan` turns a Due into a decision of its own. Nothing is blocked, and the remedy is the mode."""
    decision = decided(*plans, service_state=ServiceState(mode=Mode.PLAN), asked=asked)

    due = decided(*plans, asked=asked)
    assert isinstance(due, Due)
    assert decision == WouldRun(reason=due.reason, instant=due.instant)
    assert remedy_of(decision) == "set the table's mode to act"
    if not asked and not plans:
        few = decided(service_state=ServiceState(mode=Mode.PLAN), backlog=Backlog(commits=1))
        assert few == NotDue(reason="1 of 5 commits since the last one")


# -- for every possible table

_moments = st.timedeltas(timedelta(days=-1), timedelta(days=1)).map(lambda offset: NOW + offset)
_instants = st.builds(
    an_instant,
    time=st.integers(0, 99).map("{:08d}".format),
    stands_for=st.sampled_from([Service.COMPACTION, Service.CLEAN, InstantKind.WRITE]),
    state=st.sampled_from(State),
    requested_at=_moments,
    author=st.sampled_from([None, RunId("a"), RunId("b")]),
    guarded_until=st.none() | _moments,
)
_views = st.builds(
    lambda instants, **view: a_view(*sorted(instants, key=lambda i: i.time), **view),
    st.lists(_instants, max_size=5, unique_by=lambda i: i.time),
    backlogs=st.dictionaries(
        st.sampled_from([Service.COMPACTION, Service.CLEAN]),
        st.builds(Backlog, commits=st.integers(0, 9), since=st.none() | _moments),
    ),
    faults=st.sampled_from([(), ("cut off",)]),
    blockers=st.sampled_from([(), (BLOCKER,), (replace(BLOCKER, services=frozenset({Service.CLEAN})),)]),
)
_service_states = st.builds(
    ServiceState,
    mode=st.sampled_from(Mode),
    active=st.none() | st.just(RunId("r9")),
    paused=st.none() | st.text(max_size=3),
    quarantined=st.none() | st.text(max_size=3),
    backoff=st.none() | st.builds(Backoff, until=_moments, reason=st.just("conflict")),
    idle=st.none() | st.builds(Idle, after=st.none() | st.just("00000001"), commits=st.integers(0, 9)),
    ours=st.frozensets(st.integers(0, 99).map("{:08d}".format), max_size=20),
)
_policies = st.builds(
    Policy,
    trigger=st.one_of(
        st.builds(NumCommits, at_least=st.integers(1, 9)),
        st.just(AllOf(triggers=(NumCommits(at_least=2), TimeElapsed(at_least=MINUTE)))),
    ),
    schedule=st.sampled_from(Scheduling),
    grace=st.timedeltas(timedelta(0), timedelta(hours=1)),
)
_services = st.sampled_from([Service.COMPACTION, Service.CLEAN])


@given(service=_services, view=_views, policy=_policies, service_state=_service_states, asked=st.booleans())
def test_nothing_that_must_not_run_is_ever_due(
    service: Service, view: TableView, policy: Policy, service_state: ServiceState, asked: bool
) -> None:
    """Due means: in mode `act`, not paused, not in quarantine, not waiting, without faults, blockers, guards and other
    runs.
    """
    decision = decide(service=service, view=view, policy=policy, service_state=service_state, now=NOW, asked=asked)

    if not isinstance(decision, Due):
        return
    assert service_state.mode is Mode.ACT
    assert service_state.active is None
    assert service_state.paused is None
    assert service_state.quarantined is None
    assert service_state.backoff is None or service_state.backoff.until <= NOW
    assert not view.faults
    assert not any(blocker.concerns(service) for blocker in view.blockers)
    pending = view.timeline.pending(service)
    ours = [plan for plan in pending if plan.author is not None or plan.time in service_state.ours]
    taken_up = (ours or pending)[:1]
    assert decision.instant == (taken_up[0].time if taken_up else None)
    assert all(plan.guarded_until is None or plan.guarded_until <= NOW for plan in taken_up)


@given(service=_services, view=_views, policy=_policies, service_state=_service_states)
def test_asking_turns_only_what_is_not_due_into_due(
    service: Service, view: TableView, policy: Policy, service_state: ServiceState
) -> None:
    """A request lifts no block, and changes nothing that is due anyway."""
    plain = decide(service=service, view=view, policy=policy, service_state=service_state, now=NOW)
    asked = decide(service=service, view=view, policy=policy, service_state=service_state, now=NOW, asked=True)

    match plain:
        case Due():
            assert isinstance(asked, Due)
        case Blocked():
            assert asked == plain
        case WouldRun():
            assert isinstance(asked, WouldRun)
        case NotDue():
            assert isinstance(asked, Due | NotDue | WouldRun)


@given(service=_services, view=_views, policy=_policies, service_state=_service_states)
def test_a_decision_is_looked_at_again_when_time_alone_changes_it(
    service: Service, view: TableView, policy: Policy, service_state: ServiceState
) -> None:
    """Just before `again_at` the decision is of the same kind. `again_at` is never in the past."""
    decision = decide(service=service, view=view, policy=policy, service_state=service_state, now=NOW)

    if not isinstance(decision, NotDue | Blocked) or decision.again_at is None:
        return
    assert decision.again_at > NOW
    shortly_before = decision.again_at - timedelta(microseconds=1)
    later = decide(service=service, view=view, policy=policy, service_state=service_state, now=shortly_before)
    assert type(later) is type(decision)


# -- helpers of the decision


def test_a_change_is_a_completed_write_or_rewrite() -> None:
    """A compaction leaves files for a clean. A clean, and what is in flight, bring no new work."""
    in_flight = an_instant(time="00000040", state=State.INFLIGHT)
    compacted = replace(PLAN, state=State.COMPLETED, completed_time="00000050")
    cleaned = an_instant(time="00000060", action="clean", stands_for=Service.CLEAN)

    assert last_change(a_view(WRITE, in_flight, PLAN)) == last_change(a_view(WRITE)) == "1 until 00000010"
    assert last_change(a_view(WRITE, compacted)) == last_change(a_view(WRITE, compacted, cleaned)) == "2 until 00000050"
    assert last_change(a_view()) == "0 until ever"


def test_the_next_look_is_the_earliest_that_any_decision_asks_for() -> None:
    """What is due, and what only a change can alter, names no time."""
    decisions: dict[Service, Decision] = {
        Service.COMPACTION: NotDue(reason="waits", again_at=NOW + 2 * MINUTE),
        Service.CLEAN: Blocked(reason="rests", again_at=NOW + MINUTE),
        Service.CLUSTERING: Due(reason="now"),
        Service.ARCHIVE: Blocked(reason="paused"),
    }

    assert next_decision_at(decisions.values()) == NOW + MINUTE
    assert next_decision_at([Due(reason="now"), NotDue(reason="no")]) is None


# -- windows

OPEN = Window(start=(NOW - MINUTE).time(), end=(NOW + MINUTE).time())
CLOSED = Window(start=(NOW + 60 * MINUTE).time(), end=(NOW + 120 * MINUTE).time())


def test_outside_its_window_nothing_new_is_planned_and_the_next_start_is_awaited() -> None:
    """The reason says what would make it due, so that an operator sees that only the window is closed. A plan that
    waits does more harm than one that is executed outside its window, and an operator who asks knows what time it is.
    """
    closed = replace(POLICY, window=CLOSED)

    assert decided(policy=replace(POLICY, window=OPEN)) == decided()
    assert decided(policy=closed) == NotDue(
        reason="outside its window: 5 of 5 commits since the last one", again_at=NOW + 60 * MINUTE
    )
    assert decided(OURS, policy=closed) == decided(OURS)
    assert decided(policy=closed, asked=True) == Due(reason="requested manually")


# -- deletions that wait for an approval


def test_a_deletion_that_waits_for_approval_is_blocked_with_its_remedy() -> None:
    """This also holds on request, with a pending plan, and during a delay."""
    question = Blocked(reason="would delete 24,000 files, more than the budget of 20,000", remedy="approve it")
    service_state = replace(ACT, approval=question, backoff=Backoff(until=NOW + MINUTE, reason="it stepped back"))

    for asked, instants in itertools.product([False, True], [(), (OURS,)]):
        assert decided(*instants, service_state=service_state, asked=asked) == question


# -- services without a count of their completions by the format


def test_rewrites_that_brought_no_work_do_not_bring_it_again() -> None:
    """If a clean after compactions found nothing, it waits for the next compaction, not for the next commit."""
    follows = Policy(trigger=NumRewrites(at_least=1))
    idle = replace(ACT, idle=Idle(after="0 until ever", commits=5, rewrites=1))

    def after(rewrites: int) -> Decision:
        backlog = replace(READY, commits=6, rewrites=rewrites)
        return decided(service_state=idle, policy=follows, backlog=backlog, service=Service.CLEAN)

    assert isinstance(after(1), NotDue)
    assert isinstance(after(2), Due)


@pytest.mark.parametrize("commits", [4, READY.commits + 100])
def test_the_clock_of_a_service_that_found_nothing_starts_anew(commits: int) -> None:
    """Otherwise a service that is due once a day would look for work at every commit after the first day. An expiry of
    snapshots makes the count smaller. That is no reason to list a whole table again.
    """
    daily = Policy(trigger=TimeElapsed(at_least=timedelta(days=1)))
    backlog = replace(READY, since=NOW - timedelta(days=3))
    idle = replace(ACT, idle=Idle(after="0 until ever", commits=commits, at=NOW - timedelta(hours=1)))

    assert isinstance(decided(policy=daily, backlog=backlog), Due)
    assert decided(policy=daily, backlog=backlog, service_state=idle) == NotDue(
        reason="1h of 1d since the last one", again_at=NOW + timedelta(hours=23)
    )


# -- rewrites of all files

OF_ALL = replace(ACT, rewrite_all="all files were asked for")
IDLE_TABLE: dict[str, Any] = {"backlogs": {}, "at_rest": {Service.COMPACTION: NotDue(reason="no small file")}}


def test_a_rewrite_of_all_files_is_due_without_a_backlog() -> None:
    """The backlog has only the files that are worth it, and an earlier run may have found nothing to do."""
    idle = replace(OF_ALL, idle=Idle(after=last_change(a_view(WRITE)), commits=5))

    assert decided(service_state=OF_ALL, **IDLE_TABLE) == Due(reason="all files were asked for")
    assert decided(service_state=idle, **IDLE_TABLE) == Due(reason="all files were asked for")
    assert decided(**IDLE_TABLE) == NotDue(reason="no small file")


def test_a_rewrite_of_all_files_waits_as_every_commit_does() -> None:
    """It waits for the writers that the format protects, even when it is asked for."""
    wait = NotDue(reason="a branch is about to become main", again_at=NOW + MINUTE)

    for asked in (True, False):
        assert decided(service_state=OF_ALL, asked=asked, waits={Service.COMPACTION: wait}, **IDLE_TABLE) == wait


def test_the_runs_that_continue_a_rewrite_of_all_files_keep_to_window_and_backoff() -> None:
    """Only the run that an operator asks for skips the window."""
    closed = replace(POLICY, window=CLOSED)
    resting = replace(OF_ALL, backoff=Backoff(until=NOW + MINUTE, reason="too young", failed=False))

    assert decided(service_state=OF_ALL, policy=closed) == NotDue(
        reason="outside its window: all files were asked for", again_at=NOW + 60 * MINUTE
    )
    assert isinstance(decided(service_state=OF_ALL, policy=closed, asked=True), Due)
    assert decided(service_state=resting) == NotDue(reason="too young", again_at=NOW + MINUTE)


def test_what_blocks_a_service_blocks_a_rewrite_of_all_files() -> None:
    """A pause, a quarantine and a table that is only planned are no less than for every run."""
    for news in ({"paused": "hands off"}, {"quarantined": "it failed"}, {"mode": Mode.OBSERVE}):
        for asked in (True, False):
            assert isinstance(decided(service_state=replace(OF_ALL, **news), asked=asked), Blocked)
    for asked in (True, False):
        assert isinstance(decided(service_state=replace(OF_ALL, mode=Mode.PLAN), asked=asked), WouldRun)


def test_a_table_without_its_proof_says_what_would_run_and_what_is_not_proved() -> None:
    """As in the mode plan, it is known what is due. A service that is not due is not blocked."""
    unproved = ServiceState(mode=Mode.ACT, lacking="hook: no hook of the table has arrived yet")
    decision = decided(service_state=unproved, backlog=Backlog(commits=5))
    assert isinstance(decision, Blocked)
    assert decision.reason.startswith("due, and held back until the table is proved: 5 ")
    assert decision.reason.endswith("Not proved: hook: no hook of the table has arrived yet")
    assert decision.again_at is not None
    assert isinstance(decided(service_state=unproved, backlog=Backlog(commits=1)), NotDue)
    planned = decided(service_state=ServiceState(mode=Mode.PLAN, lacking="hook: none"), backlog=Backlog(commits=5))
    assert planned == decided(service_state=ServiceState(mode=Mode.PLAN), backlog=Backlog(commits=5))
