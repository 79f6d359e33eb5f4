"""Polls are rare while hooks announce the commits of a table, and come back when they stop."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.service.rules.polling import (
    COUNTS_SECONDS,
    LATE_SECONDS,
    TRUSTED_AFTER,
    Announced,
    appointment,
    hook_arrived,
    interval,
    observed,
)

POLL, SLOW = timedelta(seconds=10), timedelta(seconds=60)


def every(known: Announced, now: float) -> timedelta:
    return interval(known, poll=POLL, with_hooks=SLOW, now=now)


def announced(times: int = TRUSTED_AFTER, *, known: Announced | None = None) -> Announced:
    """Return what is known after so many commits with a hook each, the last one at that second."""
    known = known or Announced()
    for second in range(times):
        known = observed(hook_arrived(known, float(second)), committed=True, now=second + 0.5)
    return known


def test_polls_are_rare_after_some_commits_in_a_row_that_hooks_announced() -> None:
    """Two are not enough. A poll that finds nothing changes nothing."""
    assert every(announced(TRUSTED_AFTER - 1), 10.0) == POLL
    known = announced()
    assert every(known, 10.0) == SLOW
    assert every(observed(known, committed=False, now=3600.0), 3600.0) == SLOW


def test_a_commit_without_a_hook_brings_the_polls_back() -> None:
    """At once. Rare polls have to be earned again."""
    known = observed(announced(), committed=True, now=500.0)
    assert every(known, 500.0) == POLL
    later = 500.0 + LATE_SECONDS + 1
    known = observed(hook_arrived(known, later), committed=True, now=later + 1)
    assert every(known, later + 1) == POLL


def test_a_hook_may_be_a_little_later_than_the_poll_that_saw_its_commit() -> None:
    """The writer commits first, and calls then."""
    known = observed(announced(), committed=True, now=500.0)
    assert every(hook_arrived(known, 500.0 + LATE_SECONDS), 520.0) == SLOW


def test_an_old_hook_announces_no_commit() -> None:
    """It was about something else."""
    known = hook_arrived(announced(), 100.0)
    assert every(observed(known, committed=True, now=101.0 + COUNTS_SECONDS), 101.0 + COUNTS_SECONDS) == POLL


def test_a_table_that_is_polled_more_rarely_anyway_stays_so() -> None:
    """The setting of the table is never made shorter."""
    assert interval(announced(), poll=timedelta(hours=1), with_hooks=SLOW, now=10.0) == timedelta(hours=1)


_STEPS = st.lists(
    st.tuples(st.sampled_from(["hook", "commit", "nothing"]), st.floats(0.1, 200.0)), min_size=1, max_size=60
)


@given(_STEPS)
def test_polls_are_rare_only_while_every_commit_was_announced(steps: list[tuple[str, float]]) -> None:
    """Whatever arrives and whenever: rare polls need some announced commits since the last one without a hook."""
    known, now, last_hook, good = Announced(), 0.0, float("-inf"), 0
    doubt: float | None = None
    for step, after in steps:
        now += after
        if doubt is not None and now - doubt > LATE_SECONDS:
            good, doubt = 0, None
        if step == "hook":
            known, last_hook = hook_arrived(known, now), now
            good, doubt = (good if doubt is None else good + 1), None
        else:
            known = observed(known, committed=step == "commit", now=now)
            if step == "commit" and now - last_hook <= COUNTS_SECONDS:
                good, last_hook = good + 1, float("-inf")
            elif step == "commit":
                doubt, last_hook = (now if doubt is None else doubt), float("-inf")
        found = every(known, now)
        assert found in (POLL, SLOW)
        assert (found == SLOW) <= (doubt is None and good >= TRUSTED_AFTER)


@given(st.floats(0, 10**7), st.floats(0.05, 86_400))
def test_no_wait_is_cut_short_and_none_is_longer_by_a_sixteenth(now: float, wait: float) -> None:
    """Whatever the moment is rounded to."""
    assert now + wait <= appointment(now, wait) <= now + wait * (1 + 1 / 16) + 1e-6


def test_tables_of_one_cadence_come_up_at_few_moments() -> None:
    """Each moment is a wake-up of the daemon, however many tables it has."""
    moments = {appointment(number / 1000, 9.0 + number % 1999 / 1000) for number in range(10_000)}

    assert len(moments) < 30
