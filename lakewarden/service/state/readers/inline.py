"""Observations in the thread of the caller: for tests, benches, and commands that read one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import Storage, TableFormat
from lakewarden.planners.reading.observing import Answers, ObservationRequest, Observer
from lakewarden.service.state.readers.port import Answered


class InlineReaders:
    """Answers before `begin` returns. If a storage hangs, the caller waits."""

    def __init__(
        self, *, formats: Mapping[str, TableFormat], storage_for: Callable[[str], Storage], clock: Clock
    ) -> None:
        self._observer = Observer(formats=formats, storage_for=storage_for)
        self._clock = clock
        self._answered: Answered = lambda _: None

    def open(self, answered: Answered) -> None:
        """Note the receiver of the answers."""
        self._answered = answered

    def begin(self, requests: Sequence[ObservationRequest]) -> None:
        """Observe the tables, and answer."""
        for asked in requests:
            answer = self._observer.observe(asked, now=self._clock.now())
            self._answered(Answers((asked.ticket,)) if answer is None else Answers(others=(answer,)))

    def forget(self, table: TableId) -> None:
        """Forget a table."""
        self._observer.forget(table)

    def close(self) -> None:
        """Do nothing, because there is no process to end."""
