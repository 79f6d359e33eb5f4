"""When orphans of a Paimon table is due: what its last run has left, and what was written since."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.decide import ServiceState, decide
from lakewarden.planners.formats.paimon import PaimonFormat
from lakewarden.planners.formats.paimon.deletion.orphans_beside import LastRun, content_of, file_of
from lakewarden.planners.formats.paimon.options.service_options import OrphansOptions
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.decision import Decision, Due, NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import TimeElapsed
from tests.support.paimon.paimon_look import view_of
from tests.support.paimon.paimon_table import PaimonTable

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
POLICY = Policy(trigger=TimeElapsed(at_least=DAY), options=OrphansOptions())


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    """Return a table with one commit of two days ago."""
    found = PaimonTable(tmp_path / "db.db" / "trips", clock=ManualClock())
    found.append()
    later(found, 2 * DAY)
    return found


def later(table: PaimonTable, by: timedelta) -> None:
    assert isinstance(table.clock, ManualClock)
    table.clock.advance(by)


def registered(table: PaimonTable) -> Table:
    return Table(
        id=TableId("trips"),
        format="paimon",
        location=str(table.folder),
        options=PaimonTableOptions(),
        policies={Service.ORPHANS: POLICY},
    )


def decision(table: PaimonTable) -> Decision:
    now = table.clock.now()
    view = PaimonFormat().observe(registered(table), LocalStorage(), None, now=now).view
    state = ServiceState(mode=Mode.ACT)
    return decide(service=Service.ORPHANS, view=view, policy=POLICY, service_state=state, now=now)


def ended(table: PaimonTable, *, waits: timedelta | None = None) -> None:
    """Let a run come to its end now. Files that it left wait so long."""
    now = table.clock.now()
    created = PaimonFormat().observe(registered(table), LocalStorage(), None, now=now).view.identity.created
    until = None if waits is None else now + waits
    last = LastRun(created=created, at=now, waiting=0 if waits is None else 2, waits_until=until)
    file = Path(file_of(str(table.folder)))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content_of(last))


def test_a_table_that_was_never_listed_is_due_a_day_after_its_first_commit(table: PaimonTable) -> None:
    assert isinstance(decision(table), Due)
    later(table, -1.5 * DAY)
    assert isinstance(decision(table), NotDue)


def test_it_is_due_again_a_day_after_its_last_run_if_something_was_written(table: PaimonTable) -> None:
    """Nothing is lost where nothing is written."""
    ended(table)
    later(table, 2 * DAY)
    assert isinstance(decision(table), NotDue)
    table.append()
    assert isinstance(decision(table), Due)
    ended(table)
    assert isinstance(decision(table), NotDue)


def test_it_is_due_when_files_that_wait_may_go_although_nothing_is_written(table: PaimonTable) -> None:
    ended(table, waits=25 * HOUR)
    observed = PaimonFormat().observe(registered(table), LocalStorage(), None, now=table.clock.now())
    assert "2 files that the last run has seen may go from" in " ".join(observed.view.notes[Service.ORPHANS])
    assert isinstance(decision(table), NotDue)
    later(table, 26 * HOUR)
    assert isinstance(decision(table), Due)


def test_each_run_makes_another_token_of_a_table_with_the_service(table: PaimonTable) -> None:
    """So the table is looked at again after a run that deleted files and committed nothing."""
    by, storage = PaimonFormat(), LocalStorage()
    tokens = [by.token(registered(table), storage)]
    ended(table)
    tokens.append(by.token(registered(table), storage))
    plain = Table(id=TableId("trips"), format="paimon", location=str(table.folder))
    assert len({*tokens, by.token(plain, storage)}) == 3
    assert by.token(plain, storage) == tokens[0].rpartition(".")[0]


def test_manifests_that_a_merge_would_change_are_counted(tmp_path: Path) -> None:
    """Those below `manifest.target-file-size`, and those that delete files. One alone is not merged."""
    table = PaimonTable(tmp_path / "t")
    table.append()
    assert "there is nothing to merge" in view_of(table).at_rest[Service.ARCHIVE].reason
    table.append()
    table.append()
    assert view_of(table).backlogs[Service.ARCHIVE].commits == 3
    table.alter(manifest__target_file_size="1 b")
    assert Service.ARCHIVE not in view_of(table).backlogs
    table.compact()
    table.compact()
    assert view_of(table).backlogs[Service.ARCHIVE].commits == 2
