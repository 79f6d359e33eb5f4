"""A table that is opened for one run: Hudi's client to act on it, and our own reader to see what is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewarden.executors.contract import Assignment, Step
from lakewarden.executors.programs.hudi.client import HudiClient
from lakewarden.executors.programs.hudi.errors import LockHeldError, on_the_way_out, translated
from lakewarden.executors.programs.hudi.look import Looks
from lakewarden.planners.formats.hudi.options import HudiTableOptions
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Storage


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTable:
    """What every program works with."""

    client: HudiClient
    assignment: Assignment
    options: HudiTableOptions
    storage: Storage
    clock: Clock
    looks: Looks = field(default_factory=Looks)

    def view(self, *, commits: bool = False) -> TableView:
        """Return the table as it is now, with `commits` also what each of them wrote. Raises TemporaryError if it
        cannot be read whole.
        """
        return self.looks.look(self.assignment, self.options, self.storage, now=self.clock.now(), commits=commits)

    def files_if_asked(self) -> int | None:
        """Return how many data files the table has, if the run was asked to count them."""
        if not self.assignment.counts_files:
            return None
        with translated(Step.PLAN):
            return self.client.count_data_files()


@contextlib.contextmanager
def open_table(
    session: Any, assignment: Assignment, storage: Storage, *, service: Mapping[str, str], clock: Clock
) -> Iterator[OpenTable]:
    """Open the table of a run with the service's own `hoodie.*` settings, and close it whatever happens.

    A lock that its holder does not release is named: Hudi's own message says only that there is one.
    """
    options = HudiTableOptions.model_validate(dict(assignment.table_options))
    with translated(Step.PLAN):
        client = HudiClient(session, assignment.location, options, service)
    try:
        yield OpenTable(client=client, assignment=assignment, options=options, storage=storage, clock=clock)
    except LockHeldError as error:
        lock = "the table's own lock file" if options.lock is None else str(options.lock)
        raise TemporaryError(f"{error} ({lock})", delay=error.delay) from error
    finally:
        with on_the_way_out("let go"):
            client.close()
