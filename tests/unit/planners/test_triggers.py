"""Triggers: rules over a backlog, alone and composed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.backlog.backlog import needs_commits
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import Backlog
from lakewarden.planners.triggers import (
    TRIGGERS,
    AllOf,
    AnyOf,
    Composite,
    Count,
    LogBytes,
    LogFiles,
    NumCommits,
    NumCommitsAfterLastRequest,
    NumRewrites,
    SmallFiles,
    TimeElapsed,
    Trigger,
    TriggerJudgement,
)
from lakewarden.service.config.layers.service_settings import parse_trigger
from lakewarden.service.reporting.explain.assembly import due_when
from tests.support.values import NOW

HOUR = timedelta(hours=1)

_moments = st.datetimes(
    min_value=NOW.replace(tzinfo=None) - timedelta(days=3), max_value=NOW.replace(tzinfo=None) + timedelta(days=3)
).map(lambda moment: moment.replace(tzinfo=NOW.tzinfo))
_backlogs = st.builds(
    Backlog,
    commits=st.integers(0, 8),
    commits_since_request=st.integers(0, 8),
    since=st.none() | _moments,
    rewrites=st.integers(0, 8),
    log_files=st.none() | st.integers(0, 8),
    log_bytes=st.none() | st.integers(0, 8),
    small_files=st.none() | st.integers(0, 8),
)
_simple = st.one_of(
    *(st.builds(trigger, at_least=st.integers(1, 8)) for trigger in (NumRewrites, LogFiles, LogBytes, SmallFiles)),
    st.builds(NumCommits, at_least=st.integers(1, 8)),
    st.builds(NumCommitsAfterLastRequest, at_least=st.integers(1, 8)),
    st.builds(TimeElapsed, at_least=st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=2))),
)
_several = st.lists(_simple, min_size=1, max_size=4).map(tuple)
_triggers: st.SearchStrategy[Trigger] = st.recursive(
    _simple,
    lambda inner: st.one_of(
        st.builds(AllOf, triggers=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, triggers=st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(("commits", "fires"), [(0, False), (4, False), (5, True), (6, True)])
def test_num_commits_fires_from_its_number_on(commits: int, fires: bool) -> None:
    """The commits since the last completion count. No time is named, for only a change can bring more."""
    verdict = NumCommits(at_least=5).judge(Backlog(commits=commits, commits_since_request=99), NOW)

    assert verdict.fires is fires
    assert verdict.again_at is None
    said = (
        f"{commits} of 5 commits since the last one"
        if commits <= 5
        else "6 commits since the last one (the trigger is 5)"
    )
    assert verdict.reason == said


def test_time_elapsed_names_the_moment_from_which_it_fires() -> None:
    """One second before that moment it waits. At that moment it fires."""
    backlog = Backlog(commits=1, since=NOW)
    due_at = NOW + HOUR

    waiting = TimeElapsed(at_least=HOUR).judge(backlog, due_at - timedelta(seconds=1))

    assert not waiting.fires
    assert waiting.again_at == due_at
    assert waiting.reason == "59m 59s of 1h since the last one"
    assert TimeElapsed(at_least=HOUR).judge(backlog, due_at).fires


@pytest.mark.parametrize("backlog", [Backlog(commits=0, since=NOW), Backlog(commits=3, since=None)])
def test_time_elapsed_never_fires_without_a_commit_to_work_on(backlog: Backlog) -> None:
    """A table without writes is left alone for ever, and time alone causes no new decision."""
    verdict = TimeElapsed(at_least=HOUR).judge(backlog, NOW + 1000 * HOUR)

    assert not verdict.fires
    assert verdict.again_at is None


@given(backlog=_backlogs, at_least=st.timedeltas(timedelta(0), timedelta(days=2)), later=st.timedeltas(timedelta(0)))
def test_a_firing_time_elapsed_stays_firing(backlog: Backlog, at_least: timedelta, later: timedelta) -> None:
    """Time alone never reverses it."""
    trigger = TimeElapsed(at_least=at_least)

    if trigger.judge(backlog, NOW).fires:
        assert trigger.judge(backlog, NOW + min(later, timedelta(days=1000))).fires


@given(triggers=_several, backlog=_backlogs)
def test_all_of_is_the_logical_and_of_its_parts_and_any_of_the_or(
    triggers: tuple[Trigger, ...], backlog: Backlog
) -> None:
    """Whatever the parts are."""
    parts = [trigger.judge(backlog, NOW).fires for trigger in triggers]

    assert AllOf(triggers=triggers).judge(backlog, NOW).fires is all(parts)
    assert AnyOf(triggers=triggers).judge(backlog, NOW).fires is any(parts)


@given(trigger=_triggers, backlog=_backlogs)
def test_a_trigger_that_waits_is_never_to_be_asked_again_in_the_past(trigger: Trigger, backlog: Backlog) -> None:
    """Otherwise the poll queue would run without a pause."""
    verdict = trigger.judge(backlog, NOW)

    assert verdict.reason
    if not verdict.fires and verdict.again_at is not None:
        assert verdict.again_at > NOW


@given(trigger=_triggers, backlog=_backlogs)
def test_asking_again_when_told_to_misses_nothing(trigger: Trigger, backlog: Backlog) -> None:
    """On an unchanged backlog a composed trigger fires exactly at its `again_at`, or never."""
    verdict = trigger.judge(backlog, NOW)
    if verdict.fires:
        return

    if verdict.again_at is None:
        assert not trigger.judge(backlog, NOW + timedelta(days=3000)).fires
    else:
        assert trigger.judge(backlog, verdict.again_at).fires
        assert not trigger.judge(backlog, verdict.again_at - timedelta(microseconds=1)).fires


def test_a_composed_reason_names_the_parts_that_decided() -> None:
    """AllOf names the parts that are missing, AnyOf those that fired."""
    backlog = Backlog(commits=5, commits_since_request=1, since=NOW)
    few, many = NumCommits(at_least=2), NumCommitsAfterLastRequest(at_least=3)

    assert AllOf(triggers=(few, many)).judge(backlog, NOW).reason == "1 of 3 commits since the last request"
    assert AnyOf(triggers=(few, many)).judge(backlog, NOW).reason == "5 commits since the last one (the trigger is 2)"
    both = replace(backlog, commits_since_request=3)
    assert AllOf(triggers=(few, many)).judge(both, NOW).reason == (
        "5 commits since the last one (the trigger is 2) and 3 of 3 commits since the last request"
    )


# -- what has piled up in files

MIB = 2**20


@pytest.mark.parametrize(
    ("trigger", "backlog", "reason"),
    [
        (
            NumCommitsAfterLastRequest(at_least=2),
            Backlog(commits=99, commits_since_request=2),
            "2 of 2 commits since the last request",
        ),
        (NumRewrites(at_least=2), Backlog(rewrites=2), "2 of 2 compactions or clusterings since the last one"),
        (LogFiles(at_least=9), Backlog(log_files=9), "9 of 9 log files in a file group"),
        (
            LogBytes(at_least=64 * MIB),
            Backlog(log_bytes=96 * MIB),
            "96MiB of log files in a file group (the trigger is 64MiB)",
        ),
        (SmallFiles(at_least=3), Backlog(small_files=4), "4 small files (the trigger is 3)"),
    ],
)
def test_a_pile_fires_from_its_size_on_and_says_how_large_it_is(
    trigger: Trigger, backlog: Backlog, reason: str
) -> None:
    """Time does not count: only a change can make it fire."""
    verdict = trigger.judge(backlog, NOW)

    assert (verdict.fires, verdict.reason, verdict.again_at) == (True, reason, None)
    less = replace(backlog, commits_since_request=1, rewrites=1, log_files=8, log_bytes=MIB, small_files=2)
    assert not trigger.judge(less, NOW).fires


@pytest.mark.parametrize("trigger", [LogFiles(at_least=1), LogBytes(at_least=1), SmallFiles(at_least=1)])
def test_a_pile_that_the_format_does_not_count_never_fires_and_says_so(trigger: Trigger) -> None:
    """Unknown is not large."""
    verdict = trigger.judge(Backlog(commits=99), NOW)

    assert not verdict.fires
    assert verdict.reason.endswith("is not known")


# A trigger that no other code knows: its class alone has everything that the product needs.


@dataclass(frozen=True, kw_only=True, slots=True)
class _FileGroups(Trigger):
    word: ClassVar = "file_groups"
    at_least: Count

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        return TriggerJudgement(fires=(backlog.file_groups or 0) >= self.at_least, reason="file groups")

    def describe(self) -> str:
        return f"{self.at_least} file groups"

    def counts_files(self) -> bool:
        return True


NEW = _FileGroups(at_least=3)


@pytest.mark.parametrize("trigger", [NEW, AllOf(triggers=(NumCommits(at_least=5), NEW))])
def test_a_new_trigger_is_a_class(trigger: Trigger) -> None:
    """It is explained, the format counts its backlog, and the configuration accepts it."""
    policy = Policy(trigger=trigger)
    table = Table(id=TableId("t"), format="hudi", location="/t", policies={Service.CLEAN: policy})

    assert "3 file groups" in due_when(policy)
    assert needs_commits(table)
    assert parse_trigger(trigger) is trigger


def test_a_trigger_is_read_within_the_bounds_that_its_class_states() -> None:
    """A number outside the bounds is refused with their description."""
    assert _FileGroups.read(7) == _FileGroups(at_least=7)
    with pytest.raises(ValueError, match="0 is too low: write 1 to 1000000"):
        _FileGroups.read(0)


@pytest.mark.parametrize("kind", [kind for kind in TRIGGERS if kind.word is not None])
def test_every_trigger_that_has_a_word_can_be_written_down(kind: type[Trigger]) -> None:
    """The configuration knows each trigger by the word of its class."""
    argument = [{"num_commits": 5}] if issubclass(kind, Composite) else None
    if argument is not None:
        assert isinstance(parse_trigger({kind.word: argument}), kind)
    else:
        with pytest.raises(ValueError, match=f"^{kind.word}: None is no"):
            parse_trigger({kind.word: None})
