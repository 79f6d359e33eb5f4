"""Looks in the caller's own thread: for tests, benches, and commands that look at one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import Storage, TableFormat
from lakewarden.planners.reading.looks import Answers, LookAsked, Looker
from lakewarden.service.state.readers.port import Answered


class InlineReaders:
    """Answers before `begin` returns. A storage that hangs is the caller's trouble."""

    def __init__(
        self, *, formats: Mapping[str, TableFormat], storage_for: Callable[[str], Storage], clock: Clock
    ) -> None:
        self._looker = Looker(formats=formats, storage_for=storage_for)
        self._clock = clock
        self._answered: Answered = lambda _: None

    def open(self, answered: Answered) -> None:
        """Be ready to read."""
        self._answered = answered

    def begin(self, looks: Sequence[LookAsked]) -> None:
        """Look, and answer."""
        for asked in looks:
            answer = self._looker.look(asked, now=self._clock.now())
            self._answered(Answers((asked.ticket,)) if answer is None else Answers(others=(answer,)))

    def forget(self, table: TableId) -> None:
        """Remember nothing of a table."""
        self._looker.forget(table)

    def close(self) -> None:
        """Do nothing: there is nothing to end."""
