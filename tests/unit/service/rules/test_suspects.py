"""Suspects: services in whose company a JVM died. They run alone, and hold nobody up for longer than that takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.contract import Capacity
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.dispatch import LastRuns, PoolFacts, startable
from tests.support.values import a_run

ELSEWHERE = "elsewhere"
"""A table that another pool serves."""


def run(table: str, service: Service = Service.COMPACTION) -> Run:
    """Return a run on a table whose identity is its name."""
    return a_run(f"{table}-{service}", table=TableId(table), identity=f"/lake/{table}#1", service=service)


def started(
    queued: Sequence[Run],
    *,
    suspects: Collection[str],
    running: Sequence[Run] = (),
    slots: int = 4,
    free: int | None = None,
    behind_barrier: Collection[TableId] = (),
) -> str | None:
    """Return the table of the run that starts next; every service of the tables in `suspects` is one."""
    at_work = [replace(r, state=RunState.RUNNING) for r in running]
    in_default = sum(r.table != ELSEWHERE for r in running)
    chosen = startable(
        queued=queued,
        running=at_work,
        committing_tables=(),
        behind_barrier=behind_barrier,
        last=LastRuns(suspects={(TableId(name), service) for name in suspects for service in Service}),
        facts=PoolFacts(
            pools={r.id: "other" if r.table == ELSEWHERE else "default" for r in (*queued, *running)},
            capacities={
                "default": Capacity(slots=slots, free=slots - in_default if free is None else free),
                "other": Capacity(slots=slots, free=slots - (len(running) - in_default)),
            },
        ),
    )
    return None if chosen is None else chosen.table


def test_a_suspect_starts_only_when_nothing_runs_in_its_pool() -> None:
    """Then a JVM that dies again has died by it."""
    assert started([run("a")], suspects="a", running=[run("b")]) is None
    assert started([run("a")], suspects="a") == "a"


def test_nothing_starts_beside_a_suspect() -> None:
    """Nor another suspect: nobody would know again who it was."""
    assert started([run("b")], suspects="a", running=[run("a")]) is None
    assert started([run("b")], suspects="ab", running=[run("a")]) is None


def test_a_slot_that_a_forgotten_run_still_uses_is_waited_for() -> None:
    """A run that was disowned is not in the book any more, and may still be in the JVM."""
    assert started([run("a")], suspects="a", free=3) is None


def test_other_pools_are_other_jvms() -> None:
    """What runs there neither holds a suspect back nor waits for it."""
    assert started([run("a")], suspects="a", running=[run(ELSEWHERE)]) == "a"
    assert started([run(ELSEWHERE)], suspects="a", running=[run("a")]) == ELSEWHERE


def test_what_was_queued_after_a_waiting_suspect_waits_for_it() -> None:
    """Else a busy pool would never be empty, and the suspect would starve."""
    queue = [run("a"), run("s"), run("b")]

    assert started(queue, suspects="s", running=[run("x")]) == "a"
    assert started(queue[1:], suspects="s", running=[run("x"), run("a")]) is None
    assert started(queue[1:], suspects="s") == "s"


def test_a_suspect_that_could_not_start_anyway_holds_nobody_up() -> None:
    """A writer's barrier on its table is not the others' business."""
    suspect = run("s", Service.CLEAN)

    assert started([suspect, run("b")], suspects="s", running=[run("x")], behind_barrier=[TableId("s")]) == "b"


@given(
    names=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True),
    suspects=st.sets(st.sampled_from("abcdefgh")),
    slots=st.integers(1, 5),
    ends=st.lists(st.integers(0, 7), max_size=30),
)
def test_everybody_gets_a_turn_and_no_suspect_has_company(
    names: list[str], suspects: set[str], slots: int, ends: list[int]
) -> None:
    """However runs end, the queue drains, and whenever a suspect runs it runs alone."""
    queue, running = [run(name) for name in names], list[Run]()
    served: list[str] = []
    for end in [*ends, *range(len(names) * 2)]:
        while (table := started(queue, suspects=suspects, running=running, slots=slots)) is not None:
            running.append(next(r for r in queue if r.table == table))
            queue = [r for r in queue if r.table != table]
            served.append(table)
            assert len(running) == 1 or not suspects.intersection(r.table for r in running)
        assert running or not queue, "a pool with nothing under way must start something"
        if running:
            running.pop(end % len(running))

    assert sorted(served) == sorted(names)
    in_order = [name for name in names if name in suspects]
    assert [name for name in served if name in suspects] == in_order, "suspects keep their order"
