"""The zone of a timeline is proved from its files. Otherwise no service runs on the table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.metadata.timeline import instant_time, shown_twice_until, to_utc, wall_time
from lakewarden.planners.formats.hudi.metadata.zone import ZoneFinding, ZoneWitness, find_zone

ZONES = st.sampled_from(["UTC", "America/Los_Angeles", "Asia/Kolkata", "Asia/Shanghai", "Australia/Lord_Howe"])
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
LAGS = st.timedeltas(timedelta(seconds=-2), timedelta(seconds=50))


def found(seen: list[ZoneWitness], *, workers: str = "UTC", declared: str | None = None) -> ZoneFinding:
    return find_zone(seen, declared=declared, stated="LOCAL", workers=ZoneInfo(workers))


def witness(moment: datetime, zone: str, lag: timedelta = timedelta(seconds=1)) -> ZoneWitness:
    return ZoneWitness(time=instant_time(moment, ZoneInfo(zone)), written=moment + lag)


def twice_a_year(moment: datetime, zone: str) -> bool:
    """Whether the wall clock of `zone` shows the moment's time twice, in the hour that summer time gives back."""
    return to_utc(instant_time(moment, ZoneInfo(zone)), ZoneInfo(zone)) - moment < timedelta(milliseconds=-1)


@given(moment=MOMENTS, writers=ZONES, workers=ZONES, lag=LAGS)
def test_writers_in_another_zone_than_the_workers_are_found_out(
    moment: datetime, writers: str, workers: str, lag: timedelta
) -> None:
    """Services run exactly if the wall clocks of writers and workers agree."""
    assume(not twice_a_year(moment, writers) and not twice_a_year(moment, workers))
    agree = moment.astimezone(ZoneInfo(writers)).utcoffset() == moment.astimezone(ZoneInfo(workers)).utcoffset()
    finding = found([witness(moment, writers, lag)], workers=workers)
    assert (finding.blocker is None) == agree
    assert abs(to_utc(instant_time(moment, ZoneInfo(writers)), finding.zone) - moment) < timedelta(milliseconds=1)


def test_the_blocker_names_both_zones_and_the_remedy() -> None:
    """An operator reads the zone of the instants, and what to set."""
    finding = found([witness(datetime(2026, 3, 1, tzinfo=UTC), "America/Los_Angeles")])
    assert finding.blocker is not None
    assert "UTC-08:00" in finding.blocker.reason
    assert "in UTC" in finding.blocker.reason
    assert "spark profile" in finding.blocker.remedy
    assert finding.blocker.services == frozenset()


def test_one_witness_is_enough_against_files_that_prove_nothing_and_too_few_against_another_zone() -> None:
    """Older files may bear the time of a copy. The newest instants must not contradict each other. Before the first one
    the zone is not known.
    """
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    copied = [witness(noon - timedelta(days=9, minutes=n), "UTC", lag=timedelta(days=9, minutes=7)) for n in (3, 4)]
    assert found([witness(noon, "UTC"), *copied]).blocker is None
    assert found([witness(noon, "UTC"), witness(noon, "Asia/Shanghai")]).blocker is not None
    assert found([]).blocker is not None


@pytest.mark.parametrize("lag", [timedelta(minutes=6), timedelta(minutes=-6), timedelta(days=9, minutes=7)])
def test_files_copied_afterwards_prove_nothing(lag: timedelta) -> None:
    """Modification times that fit no zone leave the zone unproved. The remedy names what to declare."""
    finding = found([witness(datetime(2026, 3, 1, tzinfo=UTC), "UTC", lag=lag)])
    assert finding.blocker is not None
    assert "not proved" in finding.blocker.reason
    assert "timeline_timezone" in finding.blocker.remedy


def test_a_declared_zone_stands_in_for_a_proof() -> None:
    """The owner of a copied table may declare its zone. It must still be the workers' zone."""
    copied = [witness(datetime(2026, 3, 1, tzinfo=UTC), "UTC", lag=timedelta(days=9, minutes=7))]
    assert found(copied, declared="Etc/UTC").blocker is None
    assert found(copied, declared="Asia/Tokyo").blocker is not None
    assert found(copied, declared="Asia/Tokyo", workers="Asia/Tokyo").blocker is None
    assert found(copied, declared="Nowhere/Land").blocker is not None


@given(moment=MOMENTS, zone=ZONES, lag=LAGS)
def test_instants_round_trip_through_their_zone(moment: datetime, zone: str, lag: timedelta) -> None:
    """An instant names its moment to the millisecond. In the hour that summer time gives back, its file says which
    moment.
    """
    read = to_utc(instant_time(moment, ZoneInfo(zone)), ZoneInfo(zone), near=moment + lag)
    assert abs(read - moment) < timedelta(milliseconds=1)


BERLIN = ZoneInfo("Europe/Berlin")
PUT_BACK = datetime(2026, 10, 25, 1, tzinfo=UTC)
"""When Berlin's clocks went from three back to two."""


@given(minutes=st.integers(-180, 180), lag=LAGS, stated=st.sampled_from(["UTC", "LOCAL"]))
def test_the_repeated_hour_of_daylight_saving_proves_the_zone_as_any_other(
    minutes: int, lag: timedelta, stated: str
) -> None:
    """A write at the second half past two is in the workers' own zone, and holds nothing back afterwards."""
    seen = [witness(PUT_BACK + timedelta(minutes=minutes), "Europe/Berlin", lag)]
    finding = find_zone(seen, declared=None, stated=stated, workers=BERLIN)
    assert finding == ZoneFinding(zone=BERLIN)


def test_a_writer_one_hour_behind_is_found_out_in_any_other_hour() -> None:
    """Reading a time both ways only forgives the repeated hour."""
    summer = [witness(PUT_BACK - timedelta(hours=3), "UTC")]
    assert find_zone(summer, declared=None, stated="LOCAL", workers=ZoneInfo("Europe/London")).blocker is not None


@given(moment=MOMENTS, zone=st.sampled_from([*["Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "UTC"]]))
def test_times_are_shown_twice_until_the_last_of_them_was(moment: datetime, zone: str) -> None:
    """Until then another moment within two hours is written in the same way. After it the clock only advances."""
    until = shown_twice_until(moment, ZoneInfo(zone))
    others = [moment + timedelta(minutes=minutes) for minutes in (-60, -30, 30, 60)]
    assert (until is not None) == any(
        instant_time(one, ZoneInfo(zone)) == instant_time(moment, ZoneInfo(zone)) for one in others
    )
    assert until is None or (moment < until and shown_twice_until(until, ZoneInfo(zone)) is None)


@given(minutes=st.integers(-59, 59), seconds=st.integers(0, 59))
def test_both_times_of_the_repeated_hour_end_with_the_second_one(minutes: int, seconds: int) -> None:
    """From the first two o'clock to the second three o'clock."""
    moment = PUT_BACK + timedelta(minutes=minutes, seconds=seconds)
    assert shown_twice_until(moment, BERLIN) == PUT_BACK + timedelta(hours=1)


@pytest.mark.parametrize(
    "text", ["00000000000001", "99999999999999999", "123456789012345", "99991231235959999", "00010101000000000"]
)
def test_instants_that_are_no_times_come_before_all(text: str) -> None:
    """Instants of the bootstrap and those made by hand do not raise."""
    for zone in ("Asia/Tokyo", "America/Los_Angeles"):
        assert to_utc(text, ZoneInfo(zone)).year == 1970


def test_an_instant_to_the_second_stands_for_its_last_millisecond() -> None:
    """Hudi reads times from before 0.11 so."""
    assert wall_time("20200102030405").microsecond == 999_000
