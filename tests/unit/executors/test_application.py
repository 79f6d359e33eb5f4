"""The application of a run is the same after it was stored, and nothing else is taken for one."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.application import ClusterApplication
from lakewarden.executors.profile import (
    DEFAULTS,
    FAILURES,
    INTERVAL,
    check,
    counted_deadline,
    enforced,
    executors_end_within,
    masters,
)

_applications = st.builds(
    ClusterApplication,
    master=st.text(),
    application=st.text(),
    web_ui=st.none() | st.text(min_size=1),
    executors_end_within=st.floats(min_value=0.001, max_value=86400),
)


@given(application=_applications)
def test_an_application_is_read_as_it_was_written(application: ClusterApplication) -> None:
    """Another replica judges by it."""
    assert ClusterApplication.from_text(application.to_text()) == application


@given(text=st.text() | st.recursive(st.none() | st.text() | st.floats(), st.lists).map(json.dumps))
def test_what_is_no_application_is_refused(text: str) -> None:
    """A row of a later version is not guessed at."""
    with pytest.raises(ValueError, match="is not an application of a cluster"):
        ClusterApplication.from_text(text)


@pytest.mark.parametrize(
    "news", [{"executors_end_within": 0}, {"master": 7}, {"more": 1}, {"executors_end_within": "5"}]
)
def test_an_application_of_another_kind_is_refused(news: dict[str, object]) -> None:
    """One wrong value is enough."""
    fitting = {"master": "spark://a:7077", "application": "app-1", "web_ui": None}
    with pytest.raises(ValueError, match="is no"):
        ClusterApplication.from_text(json.dumps({**fitting, "executors_end_within": 45, **news}))


# By when the executors of a driver that does not answer have ended.


def test_executors_end_within_the_time_that_was_measured() -> None:
    """With these two values they went on for 18.7 to 19.6 s (docs/workers.md)."""
    assert timedelta(seconds=19.6) < executors_end_within({}) <= timedelta(seconds=45)


@given(seconds=st.integers(1, 3600), failures=st.integers(1, 1000))
def test_no_executor_counts_for_longer_than_its_deadline(seconds: int, failures: int) -> None:
    """It begins to count up to an interval after the last answer, and each failure takes an interval."""
    conf = {INTERVAL: f"{seconds}s", FAILURES: str(failures)}
    assert counted_deadline(conf) >= timedelta(seconds=seconds * failures) + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("written", "seconds"), [("2000", 10), ("2s", 10), ("1m", 300), ("500ms", 2.5), ("1min", 300), ("1h", 18000)]
)
def test_the_interval_is_read_as_spark_reads_it(written: str, seconds: float) -> None:
    """A number without a unit is milliseconds."""
    assert counted_deadline({INTERVAL: written}) == timedelta(seconds=seconds)


_WRONG = [(INTERVAL, said) for said in ("", "soon", "0", "2 weeks", "-2s")]
_WRONG += [(FAILURES, said) for said in ("", "0", "-1", "many", "99999")]


@pytest.mark.parametrize(("key", "said"), _WRONG)
def test_a_heartbeat_that_bounds_nothing_is_refused(key: str, said: str) -> None:
    """The key is named."""
    with pytest.raises(ValueError, match=re.escape(key)):
        counted_deadline({key: said})


@given(seconds=st.integers(1, 600), failures=st.integers(1, 100))
def test_a_driver_gives_no_executor_up_before_that_one_has_ended(seconds: int, failures: int) -> None:
    """Else its tasks would be carried out twice at the same time, and both write the files of one plan."""
    conf = {INTERVAL: f"{seconds}s", FAILURES: str(failures)}
    network = int(enforced(conf)["spark.network.timeout"].removesuffix("s"))
    assert timedelta(seconds=network) >= max(executors_end_within(conf), timedelta(seconds=120))


@pytest.mark.parametrize(
    "key", ["spark.speculation", "spark.network.timeout", "spark.task.reaper.enabled", "spark.submit.deployMode"]
)
def test_what_keeps_executors_apart_is_not_for_a_profile_to_change(key: str) -> None:
    """The key is named. All other keys of a profile win over ours."""
    with pytest.raises(ValueError, match=re.escape(f"{key} is set by Lakewarden itself")):
        check({key: "true"})
    check(DEFAULTS)


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:7077,b.c:7078", [("a", 7077), ("b.c", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
    ],
)
def test_each_master_of_an_address_is_tried(master: str, found: list[tuple[str, int]]) -> None:
    """A standby takes over from one that has died."""
    assert masters(master) == found


@pytest.mark.parametrize("master", ["spark://", "spark://a", "spark://a:", "spark://a:7077,b", "spark://a:99999"])
def test_an_address_without_a_master_is_refused(master: str) -> None:
    """It is shown."""
    with pytest.raises(ValueError, match="is not a standalone master"):
        masters(master)
