"""A Paimon table with services on its partitions, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lakewarden.planners.formats.paimon import PAIMON, PaimonFormat
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits
from tests.support.paimon.paimon_look import registered
from tests.support.paimon.paimon_table import File, PaimonTable


class Partitioned:
    """A table, its clock, and the services that it has. The partition `p` is a number: it tells no time."""

    def __init__(self, folder: Path, services: Mapping[Service, Mapping[str, Any]], **own: Any) -> None:
        self.clock = ManualClock()
        self.table = PaimonTable(folder, clock=self.clock)
        self.format = PaimonFormat()
        policies = {
            service: Policy(trigger=NumCommits(at_least=1), options=PAIMON.services[service].model_validate(options))
            for service, options in services.items()
        }
        options = PaimonTableOptions.model_validate(own)
        self.registered: Table = replace(registered(self.table), policies=policies, options=options)

    def write(self, p: int, **other: Any) -> None:
        """Commit a file into a partition, with the time of now."""
        self.table.append(self.file(p, **other))

    def file(self, p: int, **other: Any) -> File:
        """Return a new file, written now."""
        return self.table.file(p, stated={"_CREATION_TIME": round(self.clock.now().timestamp() * 1000)}, **other)

    def mark(self, p: int, content: str) -> None:
        """Put a marker into the folder of a partition."""
        folder = self.table.folder / f"p={p}"
        folder.mkdir(exist_ok=True)
        (folder / "_SUCCESS").write_text(content)

    def observe(self, previous: Observation | None = None, now: datetime | None = None) -> Observation:
        """Observe the table."""
        return self.format.observe(self.registered, LocalStorage(), previous, now=now or self.clock.now())

    def view(self) -> TableView:
        """Return the view of the table."""
        return self.observe().view

    def due(self, service: Service) -> int:
        """Return how many partitions a service has to do something about."""
        backlog = self.view().backlogs.get(service)
        return 0 if backlog is None else backlog.commits
