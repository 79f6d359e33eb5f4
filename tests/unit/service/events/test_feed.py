"""The last changes of tables and runs, as clients read them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.clock import ManualClock
from lakewarden.service.events.feed import Feed
from tests.support.values import a_run


@given(st.integers(0, 12), st.integers(-3, 15), st.integers(1, 5))
def test_a_reader_gets_every_later_change_or_is_told_that_some_are_gone(added: int, after: int, kept: int) -> None:
    """No number of changes, and no number that a client makes up, leaves a gap that is not told."""
    feed = Feed(ManualClock(), kept=kept)
    for number in range(added):
        feed.add_run(a_run(f"r{number + 1}"))

    found = feed.after(after)

    if max(0, added - kept) <= after <= added:
        assert found is not None
        assert [change.number for change in found] == list(range(after + 1, added + 1))
    else:
        assert found is None


def test_a_watcher_is_called_for_each_change_until_it_ends_that() -> None:
    """It is called in the thread of the change, so it must return at once."""
    feed, called = Feed(ManualClock()), []
    end = feed.watch(lambda: called.append(feed.newest))

    feed.add_run(a_run())
    feed.add_run(a_run())
    end()
    feed.add_run(a_run())

    assert called == [1, 2]
