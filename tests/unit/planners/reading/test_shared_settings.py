"""Tables with equal settings hold them once, in the daemon and in a reader process."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners import sharing
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Mode, Policy, Table, TableId
from lakewarden.planners.reading.frames import Frames, believed, framed
from lakewarden.planners.sharing import SharedValues
from lakewarden.planners.triggers import NumCommits, TimeElapsed

_TRIGGERS = st.builds(NumCommits, at_least=st.integers(1, 2)) | st.just(TimeElapsed(at_least=timedelta(days=1)))
_POLICIES = st.builds(
    Policy, trigger=_TRIGGERS, priority=st.integers(0, 1), session=st.sampled_from([{}, {"spark.a": "1"}])
)
_TABLES = st.builds(
    Table,
    id=st.text(max_size=3).map(TableId),
    format=st.sampled_from(["hudi", "iceberg"]),
    location=st.text(max_size=3),
    mode=st.sampled_from(Mode),
    options=st.sampled_from(["trusted", "observed"]).map(lambda proof: HudiTableOptions(lock_proof=proof)),
    policies=st.dictionaries(st.sampled_from([Service.CLEAN, Service.COMPACTION]), _POLICIES),
    budget=st.builds(DeletionBudget, files=st.integers(1, 2)),
    labels=st.dictionaries(st.sampled_from("ab"), st.sampled_from("cd")),
)


@given(tables=st.lists(_TABLES, max_size=8), frames=st.integers(1, 3))
def test_tables_with_equal_policies_hold_one_policy(tables: list[Table], frames: int) -> None:
    """Also if they reach a reader in several frames. No setting changes on the way."""
    here, there = SharedValues(), SharedValues()
    shared = [here.table(table) for table in tables]
    sent = Frames()
    for number in range(frames):
        sent.feed(framed(shared[number::frames]))
    arrived = []
    while (content := sent.next()) is not None:
        arrived += [there.table(table) for table in believed(content)]

    assert shared == tables
    assert arrived == [table for number in range(frames) for table in tables[number::frames]]
    for those in (shared, arrived):
        policies = [policy for table in those for policy in table.policies.values()]
        for values in (policies, [table.options for table in those], [table.budget for table in those]):
            assert all(one is other for one in values for other in values if one == other)


def test_what_is_not_met_again_is_forgotten() -> None:
    """Tables come and go for years, each with a lock key of its own. A value that many tables have stays."""
    shared = SharedValues()
    policy, rare = Policy(trigger=NumCommits(at_least=1)), Policy(trigger=NumCommits(at_least=2))
    assert shared.one(policy) is policy
    assert shared.one(rare) is rare
    for number in range(2 * sharing._MOST):
        shared.one(number)
        assert shared.one(replace(policy)) is policy

    assert shared.one(again := replace(rare)) is again
