"""The names of a timeline's files."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.metadata import names
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFile, Layout, collapse, file_name, parse
from lakewarden.planners.model.instant import State
from lakewarden.planners.ports import FileEntry

TIMES = st.from_regex(r"\A2[0-9]{13}(?:[0-9]{3})?\Z")
COMPLETED = st.sampled_from([action for action in Action if action.completed_as is action])
PENDING = st.sampled_from(list(Action))


@st.composite
def instant_files(draw: st.DrawFn, layout: Layout) -> InstantFile:
    state = draw(st.sampled_from(list(State)))
    done = state is State.COMPLETED
    return InstantFile(
        time=draw(TIMES),
        action=draw(COMPLETED if done else PENDING),
        state=state,
        completed_time=draw(TIMES) if done and layout is Layout.V2 else None,
    )


def entries(*names: str) -> list[FileEntry]:
    return [FileEntry(name=name, size=0, modified=datetime(2026, 1, 1, tzinfo=UTC)) for name in names]


@pytest.mark.parametrize("layout", Layout)
@given(data=st.data())
def test_a_file_name_says_what_it_was_made_of(layout: Layout, data: st.DataObject) -> None:
    """Names round-trip in both layouts."""
    file = data.draw(instant_files(layout))
    assert parse(file_name(file), layout) == file


@given(name=st.text(max_size=40), layout=st.sampled_from(Layout))
def test_any_other_name_is_no_instant(name: str, layout: Layout) -> None:
    """The names that parse are exactly those that would be written."""
    file = parse(name, layout)
    assert file is None or file_name(file) == name or name.endswith(".commit.inflight")


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "history",
        ".20260101000000000.commit.crc",
        "20260101000000000.commit.crc",
        "20260101.commit",
        "20260101000000000.requested",
        "20260101000000000.merge",
        "20260101000000000.compaction",
        "٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠٠.commit",
        "20260101000000000_20260101000001000.commit",
    ],
)
def test_what_else_lies_in_the_folder_is_ignored(name: str) -> None:
    """Checksums, properties and unknown actions are no instants. A completion time is in the name exactly in layout
    2.
    """
    assert parse(name, Layout.V1) is None
    assert parse("20260101000000000.commit", Layout.V2) is None


@pytest.mark.parametrize(
    ("names", "action", "state"),
    [
        (["1.compaction.requested"], Action.COMPACTION, State.REQUESTED),
        (["1.compaction.requested", "1.compaction.inflight"], Action.COMPACTION, State.INFLIGHT),
        (["1.commit", "1.compaction.inflight", "1.compaction.requested"], Action.COMPACTION, State.COMPLETED),
        (["1.logcompaction.requested", "1.deltacommit"], Action.LOGCOMPACTION, State.COMPLETED),
        (["1.inflight", "1.commit.requested"], Action.COMMIT, State.INFLIGHT),
        (["1.commit"], Action.COMMIT, State.COMPLETED),
    ],
)
def test_several_files_are_one_instant_under_the_action_of_its_request(
    names: list[str], action: Action, state: State
) -> None:
    """The highest state counts, and the word under which the work was asked for."""
    time = "20260101000000000"
    (one,) = collapse(entries(*(name.replace("1.", f"{time}.", 1) for name in names)), Layout.V1)
    assert (one.time, one.action, one.state) == (time, action, state)


def test_a_savepoint_and_the_commit_it_saves_are_two_instants() -> None:
    """They share their requested time, and nothing else."""
    time = "20260101000000000"
    both = collapse(entries(f"{time}.deltacommit", f"{time}.savepoint"), Layout.V1)
    assert [one.action for one in both] == [Action.DELTACOMMIT, Action.SAVEPOINT]


@given(st.data())
def test_instants_come_oldest_first_once_each(data: st.DataObject) -> None:
    """Whatever the order of a listing, there is one instant per requested time and deed."""
    files = data.draw(st.lists(instant_files(Layout.V2), max_size=20))
    found = collapse(entries(*{file_name(file) for file in files}), Layout.V2)
    keys = [(one.time, one.action.completed_as) for one in found]
    assert keys == sorted({(file.time, file.action.completed_as) for file in files})


def test_names_of_small_timelines_are_not_remembered() -> None:
    """The memory of a reader does not grow with the number of its tables by names that few observations list."""
    names._remembered.cache_clear()
    small, large = (entries(*(f"202601010000{number:05}.commit" for number in range(count))) for count in (200, 201))

    assert collapse(small, Layout.V1) == collapse(large, Layout.V1)[:200]
    assert names._remembered.cache_info().currsize == 201

    collapse(small, Layout.V1)
    assert names._remembered.cache_info().hits == 0
    collapse(large, Layout.V1)
    assert names._remembered.cache_info().hits == 201
