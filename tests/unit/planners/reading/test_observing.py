"""What a reader process keeps of a table, and what it sends."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import TableView
from lakewarden.planners.reading.frames import Frames, checked, framed
from lakewarden.planners.reading.observing import Answers, ObservationRequest, Observer
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import storage_for
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
