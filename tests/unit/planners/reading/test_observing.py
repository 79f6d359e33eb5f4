"""What a reader process keeps of a table, and what it sends."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners import sharing
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Mode, Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.reading.frames import Frames, believed, checked, framed
from lakewarden.planners.reading.observing import Answers, ObservationRequest, Observer
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.sharing import SharedValues
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits, TimeElapsed
from tests.support.hudi.hudi_look import made, registered
from tests.support.hudi.hudi_table import HudiTable

_ACTS = st.lists(st.sampled_from(["write", "begin", "fail", "compact", "clean", "savepoint"]), min_size=1, max_size=5)


def _act(lake: HudiTable, act: str) -> None:
    match act:
        case "write":
            lake.commit_write(lake.begin_write())
        case "begin":
            lake.begin_write()
        case "fail":
            lake.roll_back(lake.begin_write())
        case "compact":
            lake.plan_compaction()
        case "clean":
            lake.complete_clean(lake.plan_clean(), seen=lake.next_time())
        case "savepoint":
            lake.savepoint(lake.next_time())


def _sent(observer: Observer, lake: HudiTable, ticket: int) -> TableView:
    """Return the view of a new observation, as it arrives in the daemon."""
    table = registered(lake, Service.COMPACTION, Service.CLEAN)
    answer = observer.observe(ObservationRequest(ticket, table, anew=True), now=lake.clock.now())
    frames = Frames()
    frames.feed(framed(Answers(others=[answer] if answer else [])))
    content = frames.next()
    assert content is not None
    [arrived] = checked(content).others
    assert arrived.observation is not None, arrived.failure
    return arrived.observation.view  # type: ignore[no-any-return]


@pytest.mark.long
@given(acts=_ACTS)
def test_a_reader_that_remembers_a_table_sends_what_a_new_one_sends(acts: list[str]) -> None:
    """It remembers no backlogs. Equal backlogs of a view are one value in the daemon."""
    with tempfile.TemporaryDirectory() as folder:
        lake = made(Path(folder))
        remembering = Observer(formats=FORMATS, storage_for=storage_for)
        for ticket, act in enumerate(acts):
            _act(lake, act)

            view = _sent(remembering, lake, ticket)

            assert view == _sent(Observer(formats=FORMATS, storage_for=storage_for), lake, ticket)
            backlogs = view.backlogs.values()
            assert all(one is other for one in backlogs for other in backlogs if one == other)


def test_a_reader_of_disks_does_not_load_what_others_need() -> None:
    """Asyncio and TLS are for object stores. Each reader process would need 4 MiB for them."""
    code = "import sys, lakewarden.planners.reading.process; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"asyncio", "ssl", "obstore", "pyiceberg", "pyarrow"} & set(loaded.stdout.split())


# Tables with equal settings hold them once, in the daemon and in a reader process.


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
