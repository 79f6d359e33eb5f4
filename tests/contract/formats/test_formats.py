"""What every format promises the rest of the product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Fate, Instant, RunId, Service, State, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import FLINK, SPARK, Observation, WriterEngine, WriterOption
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.contract.formats.lives import IN_FLIGHT, LIVES, PLANS, WITH_METADATA, Life, observed, table_of
from tests.support.doubles.formats import TEST_FORMATS

Born = Callable[[], Life]
SERVICES = (Service.COMPACTION, Service.CLEAN)
HOUR = timedelta(hours=1)
STEPS = st.lists(st.sampled_from(["write", "commit", "compact", "clean", "start", "complete", "beat", "wait"]))
in_flight = pytest.mark.parametrize("born", IN_FLIGHT, indirect=True)
planned = pytest.mark.parametrize(("born", "service"), PLANS, indirect=["born"])
many = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


class Story:
    """Steps of a table's history. It keeps the pending instants."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.writes: list[str] = []
        self.plans: list[tuple[Service, str]] = []
        self.started: list[tuple[Service, str]] = []

    def take(self, step: str) -> bool:
        """Take a step if it is possible now. Return whether the timeline has changed by it."""
        match step:
            case "write":
                self.writes.append(self.life.begin_write())
                return self.life.shows_writes
            case "commit" if self.writes:
                self.life.commit_write(self.writes.pop(0))
            case "compact":
                self.plans.append((Service.COMPACTION, self.life.plan(Service.COMPACTION, RunId("run"))))
                return Service.COMPACTION in self.life.shows_plans
            case "clean" if self.life.plans_at_once or not self._is_cleaning():
                self.plans.append((Service.CLEAN, self.life.plan(Service.CLEAN)))
                return Service.CLEAN in self.life.shows_plans
            case "start" if self.plans:
                self.started.append(self.plans.pop(0))
                self.life.start(*self.started[-1])
                return self.started[-1][0] in self.life.shows_plans
            case "complete" if self.started:
                self.life.complete(*self.started.pop(0))
            case "beat":
                for time in (*self.writes, *(time for _, time in self.started)):
                    self.life.beat(time)
                return False
            case _:
                self.life.let_time_pass()
                return False
        return True

    def _is_cleaning(self) -> bool:
        return any(service is Service.CLEAN for service, _ in (*self.plans, *self.started))


def content(view: TableView) -> TableView:
    """Return the view without its time."""
    return replace(view, observed_at=view.observed_at.min)


def token(life: Life) -> str:
    return life.format.token(table_of(life), storage_for(life.location))


def settled(life: Life) -> Observation:
    """Observe after the last change is no longer young."""
    life.let_time_pass()
    return observed(life)


@many
@given(steps=STEPS)
def test_a_token_is_equal_exactly_if_nothing_has_happened(born: Born, steps: list[str]) -> None:
    """A step that changes the timeline changes the token, and no other does."""
    story = Story(born())
    for step in steps:
        before = token(story.life)
        changed = story.take(step)
        assert (token(story.life) != before) == changed


@many
@given(steps=STEPS)
def test_a_view_that_is_vouched_for_is_what_a_new_look_would_bring(born: Born, steps: list[str]) -> None:
    """A kept view is never older than the table, whatever happens. The exception is a heartbeat that was renewed
    meanwhile.
    """
    story = Story(born())
    kept = observed(story.life)
    for step in steps:
        story.take(step)
        fresh = observed(story.life)
        if kept.vouched_for(token=token(story.life), now=story.life.clock.now()):
            assert content(without_guards(kept.view)) == content(without_guards(fresh.view))
        else:
            kept = fresh


def without_guards(view: TableView) -> TableView:
    """Return the view without the heartbeats. A kept view need not show their renewal before they run out."""

    def still(instants: Sequence[Instant]) -> tuple[Instant, ...]:
        return tuple(replace(instant, guarded_until=None, last_beat=None) for instant in instants)

    timeline = replace(view.timeline, instants=still(view.timeline.instants))
    return replace(view, timeline=timeline, writers=replace(view.writers, in_flight=still(view.writers.in_flight)))


@many
@given(steps=STEPS)
def test_reading_only_what_is_new_brings_the_same_view_as_reading_everything(born: Born, steps: list[str]) -> None:
    """The memo only saves reading."""
    story = Story(born())
    previous = observed(story.life)
    for step in steps:
        story.take(step)
        previous = observed(story.life, previous)
        assert content(previous.view) == content(observed(story.life).view)


@planned
def test_a_plan_is_pending_until_it_is_completed(born: Born, service: Service) -> None:
    """REQUESTED, INFLIGHT and COMPLETED are seen as such. A completed plan is not pending."""
    life = born()
    time = life.plan(service)
    states = [observed(life).view.timeline.pending(service)[-1].state]
    life.start(service, time)
    states.append(observed(life).view.timeline.pending(service)[-1].state)
    life.complete(service, time)
    timeline = observed(life).view.timeline
    last = timeline.last_completed(service)
    assert states == [State.REQUESTED, State.INFLIGHT]
    assert last is not None
    assert (timeline.pending(service), last.time) == ((), time)


@planned
def test_a_withdrawn_plan_is_absent(born: Born, service: Service) -> None:
    """An instant that was removed from the timeline has the fate ABSENT."""
    life = born()
    time = life.plan(service)
    before = observed(life)
    life.withdraw(service, time)
    after = observed(life, before).view.timeline
    assert before.view.timeline.fate(run=RunId("r"), instant=time) is Fate.PENDING
    assert after.fate(run=RunId("r"), instant=time) is Fate.ABSENT


@in_flight
def test_a_run_that_died_before_it_told_us_its_instant_is_found_by_its_authorship(born: Born) -> None:
    """A compaction plan names the run that made it."""
    life = born()
    time = life.plan(Service.COMPACTION, RunId("run-7"))
    found = observed(life).view.timeline.of_run(run=RunId("run-7"), instant=None)
    assert found is not None
    assert found.time == time


@in_flight
def test_commits_pile_up_for_compaction_until_it_is_completed(born: Born) -> None:
    """The backlog counts commits since the last completed compaction, and since the newest plan."""
    life = born()
    for _ in range(3):
        life.commit_write(life.begin_write())
    first = observed(life).view.backlogs[Service.COMPACTION]
    time = life.plan(Service.COMPACTION)
    life.commit_write(life.begin_write())
    planned = observed(life).view.backlogs[Service.COMPACTION]
    life.start(Service.COMPACTION, time)
    life.complete(Service.COMPACTION, time)
    done = observed(life).view.backlogs[Service.COMPACTION]
    assert (first.commits, planned.commits_since_request, done.commits) == (3, 1, 1)
    assert planned.commits >= 4


@in_flight
def test_a_write_in_flight_is_guarded_by_its_heartbeat(born: Born) -> None:
    """A writer's heartbeat moves the time until which the write is left alone."""
    life = born()
    time = life.begin_write()
    first = observed(life).view.writers.in_flight[0]
    life.let_time_pass()
    life.beat(time)
    second = observed(life).view.writers.in_flight[0]
    assert first.guarded_until is not None
    assert second.guarded_until is not None
    assert second.guarded_until > first.guarded_until > life.clock.now() - HOUR


@in_flight
def test_an_equal_token_does_not_vouch_beyond_a_heartbeat(born: Born) -> None:
    """When the guard of a pending instant has run out, only a new observation shows whether it was renewed."""
    life = born()
    life.begin_write()
    kept = settled(life)
    guard = kept.view.writers.in_flight[0].guarded_until
    assert guard is not None
    assert kept.vouched_for(token=token(life), now=guard - timedelta(seconds=1))
    assert not kept.vouched_for(token=token(life), now=guard)


@in_flight
def test_a_change_as_young_as_the_storages_tick_is_not_vouched_for(born: Born) -> None:
    """Another change within the same tick would not change the token. Such a view is not kept."""
    life = born()
    life.commit_write(life.begin_write())
    young = observed(life)
    assert not young.vouched_for(token=token(life), now=life.clock.now())
    old = settled(life)
    assert old.vouched_for(token=token(life), now=life.clock.now() + HOUR)


@planned
def test_a_half_written_plan_is_a_fault_and_no_error(born: Born, service: Service) -> None:
    """The known part is shown, the unreadable part is named, and the view is not kept."""
    life = born()
    life.commit_write(life.begin_write())
    time = life.plan(service)
    whole = settled(life)
    file = life.damage(service, time)
    life.let_time_pass()
    damaged = observed(life, whole)
    assert whole.view.faults == ()
    assert len(damaged.view.faults) == 1
    assert file in damaged.view.faults[0]
    shown = [{i.time for i in one.view.timeline.instants} for one in (whole, damaged)]
    assert shown[0] - {time} == shown[1] - {time} != set()
    assert not damaged.vouched_for(token=damaged.token, now=life.clock.now())


def test_the_identity_survives_all_that_happens_to_the_table(born: Born) -> None:
    """A table stays the same after writes and services, and for a new observer."""
    story = Story(born())
    before = observed(story.life).view.identity
    for step in ("write", "commit", "compact", "start", "complete", "clean", "wait"):
        story.take(step)
    assert observed(story.life).view.identity == before


@pytest.mark.parametrize("born", WITH_METADATA, indirect=True)
def test_a_table_that_was_dropped_and_made_again_is_another(born: Born) -> None:
    """Leases and pauses of the old table do not apply to the new one. Nothing observed of the old one is kept."""
    life = born()
    before = observed(life)
    life.make_again()
    assert token(life) != before.token
    assert observed(life, before).view.identity != before.view.identity


@pytest.mark.parametrize("name", TEST_FORMATS)
def test_a_place_without_a_table_is_a_permanent_error(name: str, tmp_path: Path) -> None:
    """Neither a missing folder, nor an empty one, nor a file is taken for a table."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for place in ("missing", "empty", "file"):
        location = str(tmp_path / place)
        table = Table(id=TableId("trips"), format=name, location=location)
        with pytest.raises(PermanentError, match=place):
            TEST_FORMATS[name].token(table, storage_for(location))


@in_flight
def test_a_compaction_is_planned_between_writes_and_committed_after_the_older_ones(born: Born) -> None:
    """A plan endangers a write in flight, and so does the commit of a plan that was made after the write began."""
    life = born()
    endangered = life.format.endangered
    older = life.begin_write()
    view = observed(life).view
    assert [w.time for w in endangered(view, Service.COMPACTION, step=Step.PLAN, instant=None)] == [older]
    time = life.plan(Service.COMPACTION)
    life.begin_write()
    view = observed(life).view
    assert [w.time for w in endangered(view, Service.COMPACTION, step=Step.COMMIT, instant=time)] == [older]
    assert endangered(view, Service.CLEAN, step=Step.COMMIT, instant=None) == ()


@in_flight
def test_a_table_without_a_lock_is_blocked_and_says_what_to_set(born: Born) -> None:
    """Beside writers nothing runs without a lock that both sides name."""
    life = born()
    blockers = observed(life, options=life.unlocked).view.blockers
    unlocked = next(h for h in blockers if "lock" in h.reason)
    assert all(unlocked.concerns(service) for service in SERVICES)
    assert unlocked.remedy
    assert not any("lock" in h.reason for h in observed(life).view.blockers)


@pytest.mark.parametrize("name", [name for name, one in TEST_FORMATS.items() if one.services])
def test_every_supported_service_has_options_of_its_own(name: str) -> None:
    """The configuration is checked against these types, so each format must declare them."""
    declared = TEST_FORMATS[name].services
    assert TEST_FORMATS[name].name == name
    assert set(SERVICES) <= set(declared) or name in ("directory", "paimon")  # which have no clean yet
    assert all(issubclass(options, Settings) for options in (TEST_FORMATS[name].table_options, *declared.values()))


def test_every_supported_service_has_a_backlog(born: Born) -> None:
    """Every service that can be configured can be decided on. If a service has no backlog, the format says why."""
    life = born()
    life.commit_write(life.begin_write())
    view = observed(life).view
    blocked = {service for blocker in view.blockers for service in blocker.services}
    assert set(life.format.services) <= view.backlogs.keys() | view.at_rest.keys() | blocked


WRITERS = [(name, engine) for name in LIVES for engine in TEST_FORMATS[name.partition(",")[0]].writer_engines]
written = pytest.mark.parametrize(("born", "engine"), WRITERS, indirect=["born"])


def told_to(life: Life, engine: WriterEngine, *services: Service) -> tuple[Table, Sequence[WriterOption]]:
    """Return the table with these policies, and the options of its writer."""
    policies = {service: Policy(trigger=NumCommits(at_least=1)) for service in services}
    table = replace(table_of(life), policies=policies)
    return table, life.format.writer_options(table, engine=engine, hook_url="http://here/hook")


@written
def test_a_writer_is_told_each_option_once_and_why(born: Born, engine: WriterEngine) -> None:
    """The options depend only on the settings. More services mean more options."""
    life = born()
    table, told = told_to(life, engine, *SERVICES)

    assert told == told_to(life, engine, *SERVICES)[1]
    assert told
    assert len({option.key for option in told}) == len(told)
    assert all(option.why for option in told)
    assert {option.key for option in told_to(life, engine)[1]} <= {option.key for option in told}
    assert life.format.contradictions(table) == ()


@in_flight
@pytest.mark.parametrize("engine", [SPARK, FLINK], ids=str)
def test_a_writer_that_can_announce_its_commits_is_told_where(born: Born, engine: WriterEngine) -> None:
    """The writer also leaves the services with a policy to Lakewarden. Iceberg's writers report only to a REST
    catalog.
    """
    life = born()
    _, told = told_to(life, engine, *SERVICES)
    assert "http://here/hook" in {option.value for option in told}
    assert {option.key for option in told_to(life, engine)[1]} < {option.key for option in told}
