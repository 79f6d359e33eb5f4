"""Hooks have a table looked at, and never more than once in a second."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.table import TableId
from lakewarden.service.scheduling.hook_rate import HookRate, PacedHooks

TRIPS, ORDERS = TableId("trips"), TableId("orders")


class Looks:
    """Paced hooks on a clock that stands still, with the looks that they led to and when those were."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.at: list[tuple[TableId, float]] = []
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self.hooks = PacedHooks(self._look, clock=self.clock, after=self._later)

    def _look(self, table: TableId) -> None:
        self.at.append((table, self.clock.monotonic()))

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((self.clock.monotonic() + seconds, call))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with the timers that run out meanwhile."""
        until = self.clock.monotonic() + seconds
        while due := [timer for timer in self._timers if timer[0] <= until]:
            timer = min(due, key=lambda one: one[0])
            self._timers.remove(timer)
            self.clock.advance(timedelta(seconds=max(0.0, timer[0] - self.clock.monotonic())))
            timer[1]()
        self.clock.advance(timedelta(seconds=max(0.0, until - self.clock.monotonic())))

    @property
    def timers(self) -> int:
        """How many timers stand."""
        return len(self._timers)


def test_the_first_hook_is_a_look_at_once() -> None:
    """So is the next one, where a second has passed; for another table too."""
    looks = Looks()

    looks.hooks.heard([TRIPS, ORDERS])
    looks.pass_time(1)
    looks.hooks.heard([TRIPS])

    assert [table for table, _ in looks.at] == [TRIPS, ORDERS, TRIPS]
    assert looks.timers == 0


def test_a_flood_is_one_look_a_second_and_one_when_it_is_over() -> None:
    """What was committed last is seen."""
    looks = Looks()
    begun = looks.clock.monotonic()

    for _ in range(350):
        looks.hooks.heard([TRIPS])
        looks.pass_time(0.01)
    looks.pass_time(10)

    assert [round(at - begun, 2) for _, at in looks.at] == [0, 1, 2, 3, 4]


@given(
    st.lists(st.tuples(st.floats(0, 2, allow_subnormal=False), st.sampled_from([TRIPS, ORDERS])), max_size=50),
)
def test_every_hook_is_followed_by_a_look(hooks: list[tuple[float, TableId]]) -> None:
    """Within a second; looks of a table are a second apart; and nothing is remembered when all is done."""
    looks, heard = Looks(), []
    for later, table in hooks:
        looks.pass_time(later)
        heard.append((table, looks.clock.monotonic()))
        looks.hooks.heard([table])
    looks.pass_time(3)

    for table, at in heard:
        assert any(looked == table and at <= when <= at + 1.001 for looked, when in looks.at)
    for table in (TRIPS, ORDERS):
        times = [at for looked, at in looks.at if looked == table]
        assert all(after - before > 0.998 for before, after in pairwise(times))
    assert looks.timers == 0


def test_tables_that_were_told_of_once_are_forgotten() -> None:
    """What is remembered are the tables of the last second."""
    rate = HookRate(interval=1.0)
    for number in range(1000):
        rate.heard(TableId(str(number)), 0.0)
        rate.heard(TableId(str(number)), 0.5)

    assert len(rate.due(1.0)) == 1000
    assert rate.due(2.0) == ()
    assert (rate.next_at(), rate._looked_at) == (None, {})
