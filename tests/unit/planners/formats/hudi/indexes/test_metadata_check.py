"""The files that the metadata table lists, and the files in a table's folders."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.history import CompletedInstants
from lakewarden.planners.formats.hudi.indexes.metadata_table import (
    Committed,
    Differences,
    differences,
    left_out,
    named,
)
from lakewarden.planners.formats.hudi.metadata.plans import DataFile

OLD, DONE, AT_WORK = "20260101000000000", "20260301000000000", "20260302000000000"
COMMITTED = Committed(instants=CompletedInstants(times={DONE: DONE}, before=DONE))


def base(instant: str) -> str:
    return f"0b1c-0_0-12-34_{instant}.parquet"


def log(instant: str) -> str:
    return f".0b1c-0_{instant}.log.1_0-12-34"


_names = st.sampled_from([make(time) for make in (base, log) for time in (OLD, DONE, AT_WORK)])
_folders = st.dictionaries(st.sampled_from(["", "p0", "p1"]), st.frozensets(_names))


@pytest.mark.parametrize("make", [base, log])
def test_what_is_part_of_the_table_and_unknown_to_the_metadata_table_is_named(make: object) -> None:
    """Its commit is on the timeline, or archived. Files of a write in flight are not part of the table."""
    assert callable(make)
    for instant, told in ((OLD, True), (DONE, True), (AT_WORK, False)):
        found = differences({"p0": []}, {"p0": [make(instant)]}, COMMITTED)
        assert found.unknown == ({DataFile("p0", make(instant))} if told else set())


def test_a_log_that_is_being_appended_to_is_not_judged_where_its_name_does_not_say_by_whom() -> None:
    """In layout 1 the name has the instant of the slice. Without a write in flight the file is the table's."""
    appended = replace(COMMITTED, appended=True, quiet=False)
    assert not differences({}, {"p0": [log(DONE)]}, appended).unknown
    assert differences({}, {"p0": [base(DONE)]}, appended).unknown
    assert differences({}, {"p0": [log(DONE)]}, replace(appended, quiet=True)).unknown


@given(known=_folders, stored=_folders)
def test_equal_listings_do_not_differ_and_what_is_gone_is_always_told(
    known: dict[str, frozenset[str]], stored: dict[str, frozenset[str]]
) -> None:
    """A partition that only one of the two knows is compared with an empty one."""
    assert differences(known, known, COMMITTED) == Differences()
    found = differences(known, stored, COMMITTED)
    assert {(one.partition, one.name) for one in found.gone} == {
        (path, name) for path, names in known.items() for name in names - stored.get(path, frozenset())
    }
    assert found.still(found) == found
    assert found.still(Differences()) == Differences(), "what is no difference any more was a commit in between"


def test_a_table_of_which_all_is_unknown_is_told_in_a_few_lines() -> None:
    """A hundred thousand names are too many for a message."""
    text = named([DataFile("p0", base(f"{DONE[:-3]}{n:03}")) for n in range(100)])
    assert text.startswith(f"p0/{base(f'{DONE[:-3]}000')}, ")
    assert text.endswith(", and 80 more")
    assert named([DataFile("", base(DONE))]) == base(DONE)


PLANNED = "20260302120000000"
SINCE = Committed(
    instants=CompletedInstants(times={DONE: "20260301000005000", AT_WORK: "20260302120000001"}, before=DONE)
)


def of_plan(*names: str) -> frozenset[DataFile]:
    return frozenset(DataFile("p0", name) for name in names)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (log(DONE), True),
        (base(DONE), True),
        (log(AT_WORK), False),  # completed after the plan
        (base(AT_WORK), False),
        (log("20260303000000000"), False),  # of a write that failed, or is in flight
        (log(OLD), False),  # of the slice before
        (f"{log(DONE)}.cdc", False),
        (log(DONE).replace("0b1c", "another"), False),  # the plan is not about that file group
        (base("20260228000000000"), True),  # its commit is archived
    ],
)
def test_a_plan_leaves_out_what_was_committed_before_it_and_is_newer_than_its_base_file(
    stored: str, told: bool
) -> None:
    plan = of_plan(base("20260201000000000"))
    assert left_out(plan, {"p0": [base("20260201000000000"), stored]}, SINCE, at=PLANNED) == (
        of_plan(stored) if told else set()
    )


def test_a_plan_with_all_files_of_its_groups_leaves_out_none() -> None:
    names = [base("20260201000000000"), log(DONE), log("20260215000000000")]
    assert not left_out(of_plan(*names), {"p0": [*names, base(OLD)]}, SINCE, at=PLANNED)


def test_a_group_without_a_base_file_needs_each_log_file() -> None:
    assert left_out(of_plan(log(DONE)), {"p0": [log(OLD), log(DONE)]}, SINCE, at=PLANNED) == of_plan(log(OLD))


def test_a_log_compaction_needs_each_log_file_since_the_base_file_below_it() -> None:
    """Its plan names no base file. An older block that it leaves out would be read before the new one."""
    middle, before = "20260215000000000", "20260201000000000"
    stored = {"p0": [base(OLD), log(OLD), base(before), log(middle), log(DONE), base(AT_WORK)]}
    assert not left_out(of_plan(log(middle), log(DONE)), stored, SINCE, at=PLANNED, logs_alone=True)
    assert left_out(of_plan(log(DONE)), stored, SINCE, at=PLANNED, logs_alone=True) == of_plan(log(middle))


def test_in_layout_1_a_log_file_has_the_time_of_its_slice() -> None:
    """Beside a write in flight it is not known whether its rows are committed."""
    slices, plan = replace(SINCE, appended=True), of_plan(base(OLD), log(OLD))
    second = log(OLD).replace(".log.1_", ".log.2_")
    stored = {"p0": [base(OLD), log(OLD), second, log(DONE)]}
    assert left_out(plan, stored, slices, at=PLANNED) == of_plan(second)
    assert not left_out(plan, stored, replace(slices, quiet=False), at=PLANNED)
