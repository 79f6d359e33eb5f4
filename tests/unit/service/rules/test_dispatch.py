"""Dispatch: which queued run starts now."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.contract import Capacity
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.dispatch import (
    FIRST_CLASS,
    RANK_RISES_EVERY,
    LastRuns,
    PoolFacts,
    rank_of,
    startable,
    waiting_for_slots,
)
from tests.support.values import NOW, a_run

TRIPS, ORDERS, STOCK = TableId("trips"), TableId("orders"), TableId("stock")


def run(name: str, table: TableId = TRIPS, service: Service = Service.COMPACTION) -> Run:
    """Return a run on a table whose identity is its name."""
    return a_run(name, table=table, identity=f"/lake/{table}#1", service=service)


def clean(name: str, table: TableId = TRIPS) -> Run:
    """Return a clean."""
    return run(name, table, Service.CLEAN)


def started(
    *queued: Run,
    running: Sequence[Run] = (),
    committing_tables: Sequence[TableId] = (),
    behind_barrier: Sequence[TableId] = (),
    alone: Sequence[tuple[TableId, Service]] = (),
    slots: int = 3,
    free: int | None = None,
    failing_tables: Sequence[TableId] = (),
    failing: Sequence[tuple[TableId, Service]] = (),
    yielded: Sequence[tuple[TableId, Service]] = (),
    priorities: Mapping[TableId, int] | None = None,
    large: Sequence[Service] = (),
    now: datetime = NOW,
) -> str | None:
    """Return the id of the run that starts next in a pool with so many slots, of which the running take one each.
    `large` services have another pool, with as many.
    """
    pools = {r.id: "large" if r.service in large else "default" for r in (*queued, *running)}
    used = Counter(pools[r.id] for r in running)
    bad = {(table, service) for table in failing_tables for service in Service} | set(failing)
    chosen = startable(
        queued=queued,
        running=[replace(r, state=RunState.RUNNING) for r in running],
        committing_tables=committing_tables,
        behind_barrier=behind_barrier,
        alone=alone,
        last=LastRuns(failing=bad, yielded=yielded),
        rank=lambda one: rank_of(
            one,
            priority=(priorities or {}).get(one.table, 0),
            failing=(one.table, one.service) in bad,
            now=now,
        ),
        facts=PoolFacts(
            pools=pools,
            capacities={
                name: Capacity(slots=slots, free=slots - used[name] if free is None else free)
                for name in ("default", "large")
            },
        ),
    )
    return None if chosen is None else chosen.id


def test_the_longest_queued_starts_first() -> None:
    """Among tables that have nothing under way, the queue is a queue."""
    assert started(run("a"), run("b", ORDERS)) == "a"


def test_where_slots_are_few_the_higher_priority_starts_first() -> None:
    """Whoever was queued earlier; a table with less under way comes first all the same."""
    queue = [run("a"), run("b", ORDERS), run("c", STOCK)]
    assert started(*queue, priorities={ORDERS: 1, STOCK: 2}) == "c"
    assert started(*queue, priorities={TRIPS: -1}) == "b"
    assert started(*queue, priorities={STOCK: 2}, running=[clean("x", STOCK)]) == "a"


def test_nothing_waits_for_ever_behind_a_higher_priority() -> None:
    """Ten minutes in the queue are worth one."""
    early, late = run("a"), replace(run("b", ORDERS), created_at=NOW + 3 * RANK_RISES_EVERY)
    for waited, expected in ((RANK_RISES_EVERY, "b"), (5 * RANK_RISES_EVERY, "a")):
        assert started(early, late, priorities={ORDERS: 3}, now=NOW + waited) == expected


def test_a_run_that_shows_rows_goes_before_every_priority_and_not_for_ever() -> None:
    """Readers wait for it. If it failed recently, it goes as others do."""

    def rank(priority: int, *, shows_rows: bool = False, failing: bool = False, waited: int = 0) -> int:
        now = NOW + waited * RANK_RISES_EVERY
        return rank_of(run("a"), priority=priority, failing=failing, shows_rows=shows_rows, now=now)

    assert rank(-100, shows_rows=True) > rank(100)
    assert rank(0, shows_rows=True, failing=True) < rank(0)
    assert rank(0, waited=FIRST_CLASS + 1) > rank(0, shows_rows=True)
    assert rank(1, shows_rows=True) > rank(0, shows_rows=True)


def test_tables_that_fail_again_and_again_leave_half_of_the_pool_to_the_others() -> None:
    """A hundred of them, due all the time, hold no good table up: it finds a slot at once, and goes first."""
    bad = [TableId(f"bad{n}") for n in range(100)]
    queue = [run(f"r{n}", table) for n, table in enumerate(bad)]
    assert started(*queue, failing_tables=bad, slots=4) == "r0"
    assert started(*queue[2:], failing_tables=bad, slots=4, running=queue[:2]) is None
    assert started(*queue[2:], run("good"), failing_tables=bad, slots=4, running=queue[:1]) == "good"
    assert started(*queue[1:], failing_tables=bad, slots=1, running=[]) == "r1", "a pool of one slot is theirs, too"


def test_a_table_that_failed_goes_behind_the_others_for_half_an_hour() -> None:
    """And not for ever, or a busy pool would never try it again."""
    queue = [run("a"), replace(run("b", ORDERS), created_at=NOW + timedelta(minutes=31))]
    assert started(*queue, failing_tables=[TRIPS], now=NOW + timedelta(minutes=9)) == "b"
    assert started(*queue, failing_tables=[TRIPS], now=NOW + timedelta(minutes=40)) == "a"


def test_a_rollback_goes_before_what_was_queued_earlier() -> None:
    """Others may wait for the very write that it undoes; a table with less under way still comes first."""
    rollback = run("r", service=Service.ROLLBACK)
    assert started(run("a"), rollback) == "r"
    assert started(rollback, run("b", ORDERS), running=[run("x", TRIPS, Service.CLEAN)]) == "b"


@pytest.mark.parametrize("service", [Service.CLUSTERING, Service.LOG_COMPACTION])
def test_a_plan_that_blocks_others_is_taken_up_before_anything_new_is_begun_on_its_table(service: Service) -> None:
    """Behind services that are due all the time it was not taken up for half an hour, for its service had failed."""
    left = replace(run("l", service=service), instant="20260101000000000")
    archive, compaction = run("a", service=Service.ARCHIVE), run("c")

    assert started(archive, compaction, left, failing_tables=[TRIPS]) == "l"
    assert started(archive, left, running=[compaction], failing_tables=[TRIPS]) is None
    assert started(clean("k"), left, running=[compaction]) == "k", "a commit may wait for it"
    assert started(run("b", ORDERS), left, running=[compaction]) == "b"
    assert started(run("n", service=service), compaction, running=[archive]) is None
    assert started(replace(compaction, instant="20260101000000001"), left, running=[clean("k")]) == (
        "c" if service is Service.CLUSTERING else "l"
    ), "what cannot start yet holds up nothing else that was left unfinished"


def test_a_plan_whose_pool_is_full_holds_up_nothing() -> None:
    """What other workers could do meanwhile they do."""
    left = replace(run("l", service=Service.CLUSTERING), instant="20260101000000000")
    taken = [run("x", ORDERS, Service.CLUSTERING), run("y", STOCK, Service.CLUSTERING)]

    assert started(run("a"), left, running=taken, large=[Service.CLUSTERING], slots=2) == "a"


@pytest.mark.parametrize("service", [Service.CLUSTERING, Service.LOG_COMPACTION])
def test_a_compaction_goes_before_what_was_queued_earlier_and_gives_way_to_it(service: Service) -> None:
    """With two writers log compactions and clusterings kept it waiting until twice its trigger had piled up."""
    earlier, compaction = run("e", service=service), run("c")

    assert started(earlier, compaction) == "c"
    assert started(earlier, compaction, running=[run("a", service=Service.ARCHIVE)]) is None
    assert started(earlier, compaction, running=[compaction]) is None
    assert started(earlier, run("b", ORDERS)) == "e", "on other tables nothing goes first"


@pytest.mark.parametrize("service", [Service.CLUSTERING, Service.LOG_COMPACTION])
def test_nothing_gives_way_for_ever(service: Service) -> None:
    """What waited ten minutes longer goes on, and so does what meets a compaction that fails again and again."""
    earlier, compaction = run("e", service=service), replace(run("c"), created_at=NOW + RANK_RISES_EVERY)

    assert started(earlier, compaction, now=NOW + RANK_RISES_EVERY) == "e"
    assert started(earlier, compaction, now=NOW + RANK_RISES_EVERY - timedelta(seconds=1)) == "c"
    assert started(earlier, run("c"), failing=[(TRIPS, Service.COMPACTION)]) == "e"


def test_a_clustering_gives_way_once_and_a_log_compaction_each_time() -> None:
    """A busy table always has a compaction that is due. It merges the log files that a log compaction would merge."""
    for service, first in ((Service.CLUSTERING, "e"), (Service.LOG_COMPACTION, "c")):
        assert started(run("e", service=service), run("c"), yielded=[(TRIPS, service)]) == first
        assert started(run("e", service=service), run("c"), yielded=[(ORDERS, service)]) == "c"


def test_what_no_slot_can_be_had_for_keeps_nothing_waiting() -> None:
    """A compaction whose own pool is full starts no sooner for it."""
    taken = [run("x", ORDERS), run("y", STOCK), run("z", TableId("more"))]
    clustering, compaction = run("e", service=Service.CLUSTERING), run("c")

    assert started(clustering, compaction, running=taken, large=[Service.COMPACTION]) == "e"
    assert started(clustering, compaction, running=taken[:1], large=[Service.COMPACTION]) == "c"


def test_nothing_starts_without_a_free_slot() -> None:
    """Neither a compaction nor a clean."""
    assert started(run("a"), clean("k", ORDERS), free=0) is None


def test_the_last_slot_is_kept_for_cleans() -> None:
    """Else compactions that wait for a clean could fill the pool that the clean needs."""
    under_way = [run("x", ORDERS), run("y", STOCK)]

    assert started(run("a"), running=under_way) is None
    assert started(run("a"), clean("k"), running=under_way) == "k"
    assert started(run("a"), running=under_way[:1]) == "a"


def test_a_running_clean_uses_the_slot_that_was_kept_for_it() -> None:
    """Then the last free slot is anybody's."""
    assert started(run("a"), running=[run("x", ORDERS), clean("k", STOCK)]) == "a"


def test_a_pool_of_one_slot_keeps_none() -> None:
    """Else it would never compact."""
    assert started(run("a"), slots=1) == "a"


def test_a_gate_holds_back_the_cleans_of_its_table_only() -> None:
    """While a commit of ours waits for its cleans, no new one starts; other tables, and compactions, go on."""
    assert started(clean("k"), committing_tables=[TRIPS]) is None
    assert started(clean("k"), clean("m", ORDERS), committing_tables=[TRIPS]) == "m"
    assert started(run("a"), committing_tables=[TRIPS]) == "a"


def test_a_clean_that_was_left_half_way_passes_the_gate() -> None:
    """The commit that keeps cleans back waits for it."""
    assert started(replace(clean("k"), instant="00000030"), committing_tables=[TRIPS]) == "k"


def test_a_writers_barrier_holds_every_clean_of_its_table_back() -> None:
    """Also one that has a plan to finish; other tables' cleans, and compactions, go on."""
    assert started(clean("k"), behind_barrier=[TRIPS]) is None
    assert started(replace(clean("k"), instant="00000030"), behind_barrier=[TRIPS]) is None
    assert started(clean("k"), clean("m", ORDERS), run("a"), behind_barrier=[TRIPS]) == "m"
    assert started(run("a"), behind_barrier=[TRIPS]) == "a"


def test_a_clean_that_may_not_run_beside_starts_when_its_table_is_quiet() -> None:
    """And nothing starts beside it; on other tables cleans run beside compactions as ever."""
    alone = [(TRIPS, Service.CLEAN)]

    assert started(clean("k"), running=[run("x")], alone=alone) is None
    assert started(run("a"), running=[clean("k")], alone=alone) is None
    assert started(clean("k"), running=[run("x", ORDERS)], alone=alone) == "k"
    assert started(clean("m", ORDERS), running=[run("x", ORDERS)], alone=alone) == "m"


def test_two_services_that_delete_never_run_on_one_table_at_once() -> None:
    """Each has checked its plan against what the others had not deleted yet."""
    deleting = [service for service, traits in SERVICES.items() if traits.deletes]

    for queued, running in itertools.product(deleting, deleting):
        assert started(run("a", TRIPS, queued), running=[run("x", TRIPS, running)], slots=4) is None


@pytest.mark.parametrize(("queued", "running"), list(itertools.product(Service, Service)))
def test_only_what_may_run_beside_each_other_does(queued: Service, running: Service) -> None:
    """On one table a service starts beside another exactly if the rules say so; on other tables always."""
    beside = running in SERVICES[queued].beside

    assert (started(run("a", TRIPS, queued), running=[run("x", TRIPS, running)]) == "a") is beside
    assert started(run("a", TRIPS, queued), running=[run("x", ORDERS, running)]) == "a"


def test_running_beside_each_other_is_mutual() -> None:
    """If a clean may start beside a compaction, a compaction may start beside a clean."""
    for one, other in itertools.product(Service, Service):
        assert (other in SERVICES[one].beside) is (one in SERVICES[other].beside)


def test_orphans_and_a_compaction_do_not_keep_each_other_waiting() -> None:
    """On a large table each of them takes hours. A clean, a clustering and other orphans are kept apart from them."""
    orphans = run("o", TRIPS, Service.ORPHANS)

    assert started(orphans, running=[run("x")]) == "o"
    assert started(run("a"), running=[orphans]) == "a"
    for other in (Service.CLEAN, Service.CLUSTERING, Service.ARCHIVE, Service.ORPHANS):
        assert started(orphans, running=[run("x", TRIPS, other)], slots=4) is None
        assert started(run("a", TRIPS, other), running=[orphans], slots=4) is None


def test_a_table_under_another_name_is_the_same_table() -> None:
    """What may run beside what goes by what the table is, not by what it is called."""
    same = replace(run("a", ORDERS), identity=run("x").identity)

    assert started(same, running=[run("x")]) is None


def test_a_service_with_workers_of_its_own_takes_no_slot_of_the_others() -> None:
    """A clustering that runs for hours leaves the slots of its table's profile to everything else."""
    clustering = run("a", service=Service.CLUSTERING)
    others = [run("x", ORDERS), run("y", STOCK)]
    assert started(clustering, running=others) is None, "the last slot of one pool is kept for cleans"
    assert started(clustering, running=others, large=[Service.CLUSTERING]) == "a"
    assert started(run("b", ORDERS), running=[clustering], large=[Service.CLUSTERING], slots=1) == "b"


def test_what_may_not_run_beside_another_is_kept_apart_from_it_in_every_pool() -> None:
    """Two JVMs at work on one table harm it as two threads of one do."""
    for one, other in itertools.product(Service, Service):
        chosen = started(run("a", service=one), running=[run("x", service=other)], large=[other], slots=4)
        assert (chosen == "a") is (other in SERVICES[one].beside)


_tables = st.sampled_from([TRIPS, ORDERS, STOCK])
_services = st.sampled_from([Service.COMPACTION, Service.CLEAN])


@given(
    wishes=st.lists(st.tuples(_tables, _services), min_size=1, max_size=12, unique=True),
    slots=st.integers(1, 6),
    committing_tables=st.sets(_tables),
)
def test_filling_a_pool_breaks_no_rule(
    wishes: list[tuple[TableId, Service]], slots: int, committing_tables: set[TableId]
) -> None:
    """However the queue looks, what is started in turn keeps the slot for cleans, the commits and the neighbours."""
    queued = [run(str(number), table, service) for number, (table, service) in enumerate(wishes)]
    running: list[Run] = []
    while (
        chosen := started(*queued, running=running, committing_tables=list(committing_tables), slots=slots)
    ) is not None:
        queued = [r for r in queued if r.id != RunId(chosen)]
        running.append(next(run(chosen, t, s) for n, (t, s) in enumerate(wishes) if str(n) == chosen))

    cleans = [r for r in running if r.service is Service.CLEAN]
    assert len(running) <= slots
    assert len(running) - len(cleans) < slots or slots == 1
    assert not any(r.table in committing_tables for r in cleans)
    assert len({(r.table, r.service) for r in running}) == len(running)


def waits(
    *queued: Run,
    running: Sequence[Run] = (),
    slots: int = 3,
    committing: Sequence[TableId] = (),
    behind_barrier: Sequence[TableId] = (),
) -> int:
    """Return how many runs wait for a slot of a pool with so many, of which the running take one each."""
    found = waiting_for_slots(
        queued=queued,
        running=[replace(r, state=RunState.RUNNING) for r in running],
        facts=PoolFacts(
            pools={r.id: "default" for r in (*queued, *running)},
            capacities={
                "default": Capacity(slots=slots, free=max(0, slots - len(running))),
                "other": Capacity(slots=0, free=0),
            },
        ),
        committing_tables=committing,
        behind_barrier=behind_barrier,
    )
    assert found["other"] == 0
    return found["default"]


def test_runs_without_a_slot_ask_for_more_workers() -> None:
    """Also those for which only the slot of the cleans is left. A run that has a slot asks for none."""
    assert waits() == 0
    assert waits(run("a"), run("b", ORDERS), slots=0) == 2
    assert waits(run("a"), slots=1) == 0
    assert waits(run("c", STOCK), running=[run("a"), run("b", ORDERS)]) == 1
    assert waits(clean("c", STOCK), running=[run("a"), run("b", ORDERS)]) == 0


def test_runs_that_wait_for_something_else_ask_for_no_more_workers() -> None:
    """Another run of the table, a commit, or a writer: more workers would only occupy memory."""
    assert waits(run("a"), running=[run("b"), run("c", ORDERS), run("d", STOCK)]) == 0
    assert waits(run("a"), run("b", service=Service.CLUSTERING), slots=0) == 1
    assert waits(run("a"), clean("b"), slots=0) == 2
    assert waits(clean("a"), slots=0, committing=[TRIPS]) == 0
    assert waits(clean("a"), slots=0, behind_barrier=[TRIPS]) == 0
