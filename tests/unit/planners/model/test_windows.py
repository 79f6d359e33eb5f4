"""Windows: hours of the week by the wall clock, through midnight, weekends and the change to summer time."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.window import Weekday, Window

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Window(start=time(22), end=time(6), zone=BERLIN)

_zones = st.sampled_from([ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")])
_times = st.times().map(lambda at: at.replace(second=0, microsecond=0))
_windows = st.builds(
    Window, start=_times, end=_times, days=st.frozensets(st.sampled_from(Weekday), min_size=1), zone=_zones
)
_moments = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    """Return the moment at which the wall clock shows this time."""
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def test_the_start_belongs_to_a_window_and_the_end_does_not() -> None:
    """So two windows in a row share no moment and leave none out."""
    window = Window(start=time(9), end=time(17))
    day = datetime(2026, 3, 2, tzinfo=UTC)

    assert [window.contains(day + timedelta(hours=hour)) for hour in (8, 9, 16, 17)] == [False, True, True, False]
    assert not window.contains(day + timedelta(hours=9) - timedelta(microseconds=1))
    assert window.contains(day + timedelta(hours=17) - timedelta(microseconds=1))


def test_a_window_through_midnight_belongs_to_the_day_on_which_it_starts() -> None:
    """Saturday's night ends on Sunday morning. Sunday itself has none."""
    saturdays = Window(start=time(22), end=time(6), days=frozenset({Weekday.SAT}), zone=BERLIN)

    assert saturdays.contains(at("2026-03-07T23:00"))  # a Saturday
    assert saturdays.contains(at("2026-03-08T05:59"))
    assert not saturdays.contains(at("2026-03-08T22:00"))
    assert not saturdays.contains(at("2026-03-07T05:00"))
    assert saturdays.next_start(at("2026-03-08T06:00")) == at("2026-03-14T22:00")


def test_the_clock_on_the_wall_counts_through_the_change_to_summer_time() -> None:
    """A night in spring is an hour shorter, one in autumn an hour longer. Both end when the clock shows six."""
    spring, autumn = (at("2026-03-28T22:00"), at("2026-03-29T06:00")), (at("2026-10-24T22:00"), at("2026-10-25T06:00"))

    for (start, end), hours in ((spring, 7), (autumn, 9)):
        assert end.astimezone(UTC) - start.astimezone(UTC) == timedelta(hours=hours)
        assert NIGHT.contains(start)
        assert NIGHT.contains(end - timedelta(seconds=1))
        assert not NIGHT.contains(end)
        assert NIGHT.next_start(start - timedelta(seconds=1)) == start


def test_a_start_that_the_change_to_summer_time_leaves_out_comes_all_the_same() -> None:
    """On that night the clock never shows half past two. The window opens once, within the hour."""
    window = Window(start=time(2, 30), end=time(4), zone=BERLIN)
    midnight = datetime(2026, 3, 28, 23, tzinfo=UTC)

    opened = window.next_start(midnight)

    assert opened is not None
    assert midnight < opened <= midnight + timedelta(hours=3)
    assert window.contains(opened)


@given(window=_windows, moment=_moments)
def test_the_next_start_is_the_first_opening_after_a_moment(window: Window, moment: datetime) -> None:
    """It lies within eight days. The window is open from it on, and does not open in between."""
    start = window.next_start(moment)

    assert start is not None
    assert moment < start <= moment + timedelta(days=8)
    assert window.contains(start) or window.start == window.end
    assert window.next_start(start - timedelta(microseconds=1)) == start


@given(window=_windows, moment=_moments)
def test_coming_again_at_the_next_start_misses_nothing(window: Window, moment: datetime) -> None:
    """A closed window stays closed until its next start."""
    start = window.next_start(moment)
    if window.contains(moment) or start is None:
        return

    steps = int((start - moment) / timedelta(minutes=17))
    assert not any(window.contains(moment + step * timedelta(minutes=17)) for step in range(min(steps, 700)))
    assert not window.contains(start - timedelta(microseconds=1))
