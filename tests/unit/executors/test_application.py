"""The application of a run is the same after it was stored, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.application import ClusterApplication, ClusterKind

_applications = st.builds(
    ClusterApplication,
    kind=st.sampled_from(ClusterKind),
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
    with pytest.raises(ValueError, match="is no application of a cluster"):
        ClusterApplication.from_text(text)


@pytest.mark.parametrize(
    "news", [{"kind": "mesos"}, {"executors_end_within": 0}, {"master": 7}, {"more": 1}, {"executors_end_within": "5"}]
)
def test_an_application_of_another_kind_is_refused(news: dict[str, object]) -> None:
    """One wrong value is enough."""
    fitting = {"kind": "standalone", "master": "spark://a:7077", "application": "app-1", "web_ui": None}
    with pytest.raises(ValueError, match="is no"):
        ClusterApplication.from_text(json.dumps({**fitting, "executors_end_within": 45, **news}))
