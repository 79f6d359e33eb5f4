"""A Hudi table of a test, made and observed in one call each."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

from lakewarden.planners.formats.hudi import THOROUGH
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, TableFormat
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits, Trigger
from tests.support.hudi.hudi_table import HudiTable


def made(folder: Path, *, version: int = 9, **more: Any) -> HudiTable:
    """Make a table in UTC, with a clock of its own."""
    return HudiTable(folder / "trips", version=version, clock=ManualClock(), zone=more.pop("zone", UTC), **more)


def registered(table: HudiTable, *policies: Service, trigger: Trigger | None = None, options: Any = None) -> Table:
    """Register a table without writers, with these policies."""
    policy = Policy(trigger=trigger or NumCommits(at_least=1), options=options)
    return Table(
        id=TableId("trips"),
        format="hudi",
        location=str(table.folder),
        options=HudiTableOptions(writers="none"),
        policies=dict.fromkeys(policies, policy),
    )


def look(
    table: HudiTable,
    *policies: Service,
    options: Any = None,
    format_: TableFormat = THOROUGH,
    previous: Observation | None = None,
) -> Observation:
    """Observe a table at its clock's time, with all that its commits wrote."""
    wanted = registered(table, *policies, options=options)
    return format_.observe(wanted, storage_for(wanted.location), previous, now=table.clock.now())


def seen(table: HudiTable, *policies: Service, options: Any = None) -> TableView:
    """Return the view of `look`."""
    return look(table, *policies, options=options).view
