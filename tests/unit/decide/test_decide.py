"""Deciding: one pure function says what is due, what is not, and what must not run."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.decide import Backoff, Idle, Standing, decide, last_change, next_look
from lakewarden.planners.model.decision import Blocked, Decision, Due, NotDue
from lakewarden.planners.model.instant import Deed, Instant, RunId, Service, State
from lakewarden.planners.model.table import Mode, Policy, Scheduling
from lakewarden.planners.model.view import Backlog, Hindrance, TableView
from lakewarden.planners.model.window import Window
from lakewarden.planners.triggers import AllOf, NumCommits, NumRewrites, TimeElapsed
from tests.support.values import NOW, a_view, an_instant

MINUTE = timedelta(minutes=1)
READY = Backlog(commits=5, commits_since_request=5, since=NOW - MINUTE)
POLICY = Policy(trigger=NumCommits(at_least=5), grace=10 * MINUTE)
ACT = Standing(mode=Mode.ACT)
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
    standing: Standing = ACT,
    policy: Policy = POLICY,
    asked: bool = False,
    service: Service = Service.COMPACTION,
    backlog: Backlog = READY,
    **view: Any,
) -> Decision:
    """Decide on a table with these instants whose backlog is ripe, unless told otherwise."""
    return decide(
        service=service,
        view=a_view(WRITE, *instants, **{"backlogs": {service: backlog}, **view}),
        policy=policy,
        standing=standing,
        now=NOW,
        asked=asked,
    )


# -- a new plan


def test_a_firing_trigger_is_due_with_its_reason() -> None:
    """The trigger's own words are the reason, and no instant means a new plan."""
    assert decided() == Due(reason="5 of 5 commits since the last one", instant=None)


def test_a_trigger_that_waits_is_not_due_and_tells_when_to_look_again() -> None:
    """The clock of the trigger becomes the decision's."""
    policy = Policy(trigger=TimeElapsed(at_least=3 * MINUTE))

    assert decided(policy=policy) == NotDue(reason="1m of 3m since the last one", again_at=NOW + 2 * MINUTE)


def test_what_a_table_has_no_backlog_for_is_never_due() -> None:
    """A service that the format counts nothing for has nothing to do, even if it is asked for."""
    expected = NotDue(reason="the table has nothing for it to do")

    assert decided(backlogs={}) == expected
    assert decided(backlogs={}, asked=True) == expected


def test_a_format_says_why_a_service_has_nothing_to_do_now() -> None:
    """The reason is its own, and so is the moment at which time alone may change it."""
    resting = NotDue(reason="its partitions were changed a moment ago", again_at=NOW + MINUTE)

    assert decided(backlogs={}, at_rest={Service.COMPACTION: resting}) == resting


def test_plans_that_writers_make_are_not_made_by_us() -> None:
    """With schedule: writer we only execute."""
    policy = replace(POLICY, schedule=Scheduling.WRITER)

    assert decided(policy=policy) == NotDue(reason="its plans are made by the table's writers")


def test_our_plan_is_taken_up_although_an_older_one_is_left_to_its_writer() -> None:
    """What others leave lying must not hold our own work up."""
    newer = replace(OURS, time="00000030")

    assert decided(PLAN, newer) == Due(reason="our plan 00000030 waits to be completed", instant="00000030")


def test_what_a_dead_run_has_left_is_due_whatever_the_trigger_says() -> None:
    """It may hold back every other service, and does not wait for the next day."""
    left = Backlog(unfinished="savepoint 1 was left half-way")
    assert decided(backlog=left) == Due(reason="savepoint 1 was left half-way")


def test_asking_skips_the_trigger() -> None:
    """A person need not wait for the trigger to fire."""
    assert isinstance(decided(backlog=Backlog(commits=1)), NotDue)
    assert decided(backlog=Backlog(commits=1), asked=True) == Due(reason="asked for")


# -- idle


def test_a_service_that_found_nothing_to_do_waits_for_a_change() -> None:
    """As long as the newest change is the one it already looked at, its trigger is not even asked."""
    idle = replace(ACT, idle=Idle(after="1 until 00000010", commits=5))

    assert decided(standing=idle) == NotDue(reason="has done all there was to do, and nothing has changed since")


def test_commits_that_brought_no_work_are_not_counted_again() -> None:
    """After a new write the trigger counts from where nothing was found."""
    idle = replace(ACT, idle=Idle(after="00000009", commits=3))

    assert decided(standing=idle) == NotDue(reason="2 of 5 commits since the last one")
    grown = Backlog(commits=8, commits_since_request=8)
    assert decided(standing=idle, backlog=grown) == Due(reason="5 of 5 commits since the last one")


def test_an_idle_count_from_before_the_last_completion_means_nothing() -> None:
    """If the service has completed since, the backlog is smaller than the old count and counts whole."""
    idle = replace(ACT, idle=Idle(after="00000009", commits=9))

    assert isinstance(decided(standing=idle), Due)


def test_an_idle_service_can_be_asked_for() -> None:
    """A person may know better."""
    assert isinstance(decided(standing=replace(ACT, idle=Idle(after="1 until 00000010", commits=5)), asked=True), Due)


# -- a pending plan


def test_our_own_pending_plan_is_due_at_once_whatever_the_trigger_says() -> None:
    """What we planned we finish: recognised by its author, or by what the store remembers."""
    expected = Due(reason="our plan 00000020 waits to be completed", instant="00000020")

    assert decided(OURS, backlog=Backlog()) == expected
    assert decided(PLAN, standing=replace(ACT, ours=frozenset({PLAN.time})), backlog=Backlog()) == expected


def test_the_oldest_pending_plan_comes_first() -> None:
    """Plans are finished in the order they were made."""
    decision = decided(OURS, replace(OURS, time="00000030"))

    assert isinstance(decision, Due)
    assert decision.instant == "00000020"


def test_a_plan_of_another_service_is_not_taken_up() -> None:
    """A pending clean says nothing about compaction."""
    clean = replace(OURS, stands_for=Service.CLEAN)

    assert decided(clean) == Due(reason="5 of 5 commits since the last one", instant=None)


def test_a_plan_under_a_live_heartbeat_is_left_to_whoever_executes_it() -> None:
    """Until the heartbeat runs out, it is blocked; from that moment on it is due."""
    guarded = replace(OURS, guarded_until=NOW + MINUTE)

    assert decided(guarded) == Blocked(
        reason="instant 00000020 is guarded by the heartbeat of whoever executes it", again_at=NOW + MINUTE
    )
    assert isinstance(decided(replace(OURS, guarded_until=NOW)), Due)


def test_a_writers_plan_is_left_to_the_writer_where_the_policy_says_so() -> None:
    """With schedule: daemon a foreign plan may be about to be run by its writer: blocked, with the way out."""
    decision = decided(PLAN)

    assert isinstance(decision, Blocked)
    assert decision.reason == "plan 00000020 was made by a writer, and schedule: daemon leaves it to that writer"
    assert decision.remedy is not None
    assert "schedule: both" in decision.remedy


@pytest.mark.parametrize("schedule", [Scheduling.WRITER, Scheduling.BOTH])
def test_a_writers_plan_is_taken_up_after_its_grace(schedule: Scheduling) -> None:
    """Where writers leave execution to us, we still leave them a while to do it themselves."""
    policy = replace(POLICY, schedule=schedule)
    ripe = replace(PLAN, requested_at=NOW - policy.grace)

    assert decided(PLAN, policy=policy) == NotDue(
        reason="plan 00000020 of another author is left to it for a grace time", again_at=NOW + 5 * MINUTE
    )
    assert decided(ripe, policy=policy) == Due(
        reason="plan 00000020 of another author waits to be executed", instant="00000020"
    )


def test_an_unfinished_clean_of_anybody_is_finished_after_its_grace() -> None:
    """No clean can be planned beside a pending one, so leaving it for ever would end cleaning."""
    clean = replace(PLAN, stands_for=Service.CLEAN, requested_at=NOW - POLICY.grace)

    decision = decided(clean, service=Service.CLEAN)

    assert isinstance(decision, Due)
    assert decision.instant == clean.time


def test_asking_does_not_shorten_a_writers_grace() -> None:
    """The grace protects the writer's own execution, whoever is impatient."""
    policy = replace(POLICY, schedule=Scheduling.BOTH)

    assert isinstance(decided(PLAN, policy=policy, asked=True), NotDue)


# -- what holds a service back, gravest first

HINDRANCE = Hindrance(reason="no lock is named", remedy="name the lock")
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
    "hindered": ({}, {"hindrances": (HINDRANCE,)}, "no lock is named"),
    "resting": ({"backoff": Backoff(until=NOW + MINUTE, reason="conflict")}, {}, "backing off: conflict"),
}
"""What holds a service back, in the order of precedence: changes of the standing, of the view, and the reason."""


def held_by(*names: str, plans: tuple[Instant, ...] = (), asked: bool = False) -> Decision:
    """Decide on a ripe table that is held back by each of these."""
    standing, view = dict[str, Any](), dict[str, Any]()
    for name in names:
        standing.update(HOLDS[name][0])
        view.update(HOLDS[name][1])
    return decided(*plans, standing=replace(ACT, **standing), asked=asked, **view)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("plans", [(), (OURS,)], ids=["new plan", "pending plan"])
@pytest.mark.parametrize("hold", HOLDS)
def test_each_hold_stops_new_and_pending_plans_and_is_never_skipped_by_asking(
    hold: str, plans: tuple[Instant, ...], asked: bool
) -> None:
    """Every hold has its own reason; an active run is no block, all others are."""
    decision = held_by(hold, plans=plans, asked=asked)

    assert decision.reason == HOLDS[hold][2]
    assert isinstance(decision, NotDue if hold == ACTIVE else Blocked)


@pytest.mark.parametrize(("graver", "lighter"), list(itertools.combinations(HOLDS, 2)))
def test_of_two_holds_the_graver_is_told(graver: str, lighter: str) -> None:
    """People first, then the table, then we: what has to be solved first is what is shown."""
    assert held_by(graver, lighter).reason == HOLDS[graver][2]


@pytest.mark.parametrize("hold", ["observed", "paused", "quarantined", "hindered"])
def test_a_block_that_a_person_can_lift_says_how(hold: str) -> None:
    """Each such block names its remedy."""
    decision = held_by(hold)

    assert isinstance(decision, Blocked)
    assert decision.remedy


def test_a_hindrance_of_another_service_does_not_concern_this_one() -> None:
    """A clean's hindrance leaves compaction alone."""
    others = replace(HINDRANCE, services=frozenset({Service.CLEAN}))

    assert isinstance(decided(hindrances=(others,)), Due)
    assert isinstance(decided(hindrances=(others, HINDRANCE)), Blocked)


def test_a_rest_that_is_over_holds_nothing_back() -> None:
    """At the moment it ends, the service is due again; until then the decision names that moment."""
    resting = decided(standing=replace(ACT, backoff=Backoff(until=NOW + MINUTE, reason="conflict")))

    assert isinstance(resting, Blocked)
    assert resting.again_at == NOW + MINUTE
    assert isinstance(decided(standing=replace(ACT, backoff=Backoff(until=NOW, reason="conflict"))), Due)


def test_a_service_that_will_have_nothing_to_do_for_a_while_is_not_blocked() -> None:
    """It has not failed: a person who asks, or a plan that waits, is served meanwhile."""
    quiet = replace(ACT, backoff=Backoff(until=NOW + MINUTE, reason="nothing to do", failed=False))

    assert decided(standing=quiet) == NotDue(reason="nothing to do", again_at=NOW + MINUTE)
    assert isinstance(decided(standing=quiet, asked=True), Due)
    assert isinstance(decided(OURS, standing=quiet), Due)
    over = replace(ACT, backoff=Backoff(until=NOW, reason="nothing to do", failed=False))
    assert isinstance(decided(standing=over), Due)


@pytest.mark.parametrize("plans", [(), (OURS,)], ids=["new plan", "pending plan"])
@pytest.mark.parametrize("asked", [False, True])
def test_a_table_that_is_only_planned_for_shows_what_would_run(plans: tuple[Instant, ...], asked: bool) -> None:
    """Mode plan turns a Due into a block that tells what would have been done."""
    decision = decided(*plans, standing=Standing(mode=Mode.PLAN), asked=asked)

    assert isinstance(decision, Blocked)
    assert decision.reason.startswith("would run: ")
    assert decision.remedy == "set the table's mode to act"


def test_a_table_that_is_only_planned_for_still_tells_what_is_not_due() -> None:
    """Mode plan changes nothing about what is not due."""
    assert decided(standing=Standing(mode=Mode.PLAN), backlog=Backlog(commits=1)) == NotDue(
        reason="1 of 5 commits since the last one"
    )


# -- for every table there could be

_moments = st.timedeltas(timedelta(days=-1), timedelta(days=1)).map(lambda offset: NOW + offset)
_instants = st.builds(
    an_instant,
    time=st.integers(0, 99).map("{:08d}".format),
    stands_for=st.sampled_from([Service.COMPACTION, Service.CLEAN, Deed.WRITE]),
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
    hindrances=st.sampled_from([(), (HINDRANCE,), (replace(HINDRANCE, services=frozenset({Service.CLEAN})),)]),
)
_standings = st.builds(
    Standing,
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


@given(service=_services, view=_views, policy=_policies, standing=_standings, asked=st.booleans())
def test_nothing_that_must_not_run_is_ever_due(
    service: Service, view: TableView, policy: Policy, standing: Standing, asked: bool
) -> None:
    """Due means: trusted to act, not paused, not in quarantine, rested, whole, unhindered, unguarded, and alone."""
    decision = decide(service=service, view=view, policy=policy, standing=standing, now=NOW, asked=asked)

    if not isinstance(decision, Due):
        return
    assert standing.mode is Mode.ACT
    assert standing.active is None
    assert standing.paused is None
    assert standing.quarantined is None
    assert standing.backoff is None or standing.backoff.until <= NOW
    assert not view.faults
    assert not any(hindrance.concerns(service) for hindrance in view.hindrances)
    pending = view.timeline.pending(service)
    assert decision.instant == (pending[0].time if pending else None)
    assert all(p.guarded_until is None or p.guarded_until <= NOW for p in pending[:1])


@given(service=_services, view=_views, policy=_policies, standing=_standings)
def test_asking_turns_only_what_is_not_due_into_due(
    service: Service, view: TableView, policy: Policy, standing: Standing
) -> None:
    """A person's request lifts no block, and takes away nothing that is due anyway."""
    plain = decide(service=service, view=view, policy=policy, standing=standing, now=NOW)
    asked = decide(service=service, view=view, policy=policy, standing=standing, now=NOW, asked=True)

    match plain:
        case Due():
            assert isinstance(asked, Due)
        case Blocked() if not plain.reason.startswith("would run"):
            assert asked == plain
        case Blocked():
            assert isinstance(asked, Blocked)
        case NotDue():
            assert isinstance(asked, Due | NotDue) or asked.reason.startswith("would run")


@given(service=_services, view=_views, policy=_policies, standing=_standings, asked=st.booleans())
def test_deciding_is_pure(service: Service, view: TableView, policy: Policy, standing: Standing, asked: bool) -> None:
    """The same inputs give the same decision, with a reason, and stay as they were."""
    before = copy.deepcopy((view, policy, standing))
    first = decide(service=service, view=view, policy=policy, standing=standing, now=NOW, asked=asked)
    again = decide(service=service, view=view, policy=policy, standing=standing, now=NOW, asked=asked)

    assert first == again
    assert first.reason
    assert before == (view, policy, standing)


@given(service=_services, view=_views, policy=_policies, standing=_standings)
def test_a_decision_is_looked_at_again_when_time_alone_changes_it(
    service: Service, view: TableView, policy: Policy, standing: Standing
) -> None:
    """Just before `again_at` the decision is of the same kind, and `again_at` is never in the past."""
    decision = decide(service=service, view=view, policy=policy, standing=standing, now=NOW)

    if isinstance(decision, Due) or decision.again_at is None:
        return
    assert decision.again_at > NOW
    shortly_before = decision.again_at - timedelta(microseconds=1)
    later = decide(service=service, view=view, policy=policy, standing=standing, now=shortly_before)
    assert type(later) is type(decision)


# -- what stands around


def test_a_change_is_a_completed_write_or_rewrite() -> None:
    """A compaction leaves behind what a clean then finds; a clean itself, and what is in flight, bring no new work."""
    in_flight = an_instant(time="00000040", state=State.INFLIGHT)
    compacted = replace(PLAN, state=State.COMPLETED, completed_time="00000050")
    cleaned = an_instant(time="00000060", action="clean", stands_for=Service.CLEAN)

    assert last_change(a_view(WRITE, in_flight, PLAN)) == last_change(a_view(WRITE)) == "1 until 00000010"
    assert last_change(a_view(WRITE, compacted)) == last_change(a_view(WRITE, compacted, cleaned)) == "2 until 00000050"
    assert last_change(a_view()) == "0 until ever"


def test_the_next_look_is_the_earliest_that_any_decision_asks_for() -> None:
    """What is due, and what only a change can alter, asks for none."""
    decisions: dict[Service, Decision] = {
        Service.COMPACTION: NotDue(reason="waits", again_at=NOW + 2 * MINUTE),
        Service.CLEAN: Blocked(reason="rests", again_at=NOW + MINUTE),
        Service.CLUSTERING: Due(reason="now"),
        Service.ARCHIVE: Blocked(reason="paused"),
    }

    assert next_look(decisions) == NOW + MINUTE
    assert next_look({Service.CLUSTERING: Due(reason="now"), Service.TTL: NotDue(reason="no")}) is None


# -- windows

OPEN = Window(start=(NOW - MINUTE).time(), end=(NOW + MINUTE).time())
CLOSED = Window(start=(NOW + 60 * MINUTE).time(), end=(NOW + 120 * MINUTE).time())


def test_within_its_window_a_service_is_due_as_ever() -> None:
    """A window changes nothing while it is open."""
    assert decided(policy=replace(POLICY, window=OPEN)) == decided()


def test_outside_its_window_nothing_new_is_planned_and_the_next_start_is_awaited() -> None:
    """With what would make it due, so that people see that only the hour is wrong."""
    assert decided(policy=replace(POLICY, window=CLOSED)) == NotDue(
        reason="outside its window: 5 of 5 commits since the last one", again_at=NOW + 60 * MINUTE
    )


def test_outside_its_window_what_is_pending_is_still_finished() -> None:
    """A plan that waits does more harm than one that is carried out at a bad hour."""
    assert decided(OURS, policy=replace(POLICY, window=CLOSED)) == decided(OURS)


def test_a_persons_request_skips_the_window() -> None:
    """Whoever asks knows what time it is."""
    assert decided(policy=replace(POLICY, window=CLOSED), asked=True) == Due(reason="asked for")


# -- deletions that wait for a person


def test_a_deletion_that_waits_for_approval_is_blocked_with_its_remedy() -> None:
    """Also where it is asked for, where its plan is pending, and while it would rest."""
    question = Blocked(reason="would delete 24,000 files, more than the budget of 20,000", remedy="approve it")
    standing = replace(ACT, approval=question, backoff=Backoff(until=NOW + MINUTE, reason="it stepped back"))

    for asked, instants in itertools.product([False, True], [(), (OURS,)]):
        assert decided(*instants, standing=standing, asked=asked) == question


# -- services whose doings the format does not count


def test_rewrites_that_brought_no_work_do_not_bring_it_again() -> None:
    """A clean that follows compactions and found nothing waits for the next compaction, not for the next commit."""
    follows = Policy(trigger=NumRewrites(at_least=1))
    idle = replace(ACT, idle=Idle(after="0 until ever", commits=5, rewrites=1))

    def after(rewrites: int) -> Decision:
        backlog = replace(READY, commits=6, rewrites=rewrites)
        return decided(standing=idle, policy=follows, backlog=backlog, service=Service.CLEAN)

    assert isinstance(after(1), NotDue)
    assert isinstance(after(2), Due)


def test_the_clock_of_a_service_that_found_nothing_starts_anew() -> None:
    """Else one that is due once a day would look for work at every commit once a day has passed."""
    daily = Policy(trigger=TimeElapsed(at_least=timedelta(days=1)))
    backlog = replace(READY, since=NOW - timedelta(days=3))
    idle = replace(ACT, idle=Idle(after="0 until ever", commits=4, at=NOW - timedelta(hours=1)))

    assert isinstance(decided(policy=daily, backlog=backlog), Due)
    assert decided(policy=daily, backlog=backlog, standing=idle) == NotDue(
        reason="1h of 1d since the last one", again_at=NOW + timedelta(hours=23)
    )


def test_it_starts_anew_also_where_the_timeline_has_forgotten_commits() -> None:
    """An expiry of snapshots makes the count smaller: it is no reason to list a whole table again."""
    daily = Policy(trigger=TimeElapsed(at_least=timedelta(days=1)))
    backlog = replace(READY, since=NOW - timedelta(days=3))
    idle = replace(ACT, idle=Idle(after="0 until ever", commits=backlog.commits + 100, at=NOW - timedelta(hours=1)))

    assert decided(policy=daily, backlog=backlog, standing=idle) == NotDue(
        reason="1h of 1d since the last one", again_at=NOW + timedelta(hours=23)
    )
