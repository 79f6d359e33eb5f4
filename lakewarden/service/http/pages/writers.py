"""What the writers of a table have to set, on its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import SPARK, TableFormat
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.writer_options import options_of, written_out
from lakewarden.service.rules.lock_holds import worst_hold


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownOptions:
    """The options of a writer, ready to paste. If the settings of the table leave one open, `text` says which."""

    engine: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterPart:
    """What the options of writers depend on beside the table. `url` is the address of the API as writers reach it."""

    url: str
    formats: Mapping[str, TableFormat]
    with_keys: bool

    def of(self, table: Table, runs: Sequence[Run]) -> ShownOptions:
        """Return the options of a writer with the first engine of the format."""
        table_format = self.formats[table.format]
        engine = next(iter(table_format.writer_engines), SPARK)
        held = worst_hold(run for run in runs if run.state is RunState.SUCCEEDED)
        try:
            body = options_of(table, table_format, engine=engine, url=self.url, held=held, with_key=self.with_keys)
        except PermanentError as open_:
            return ShownOptions(engine=engine.name, text=f"# {open_}")
        return ShownOptions(engine=engine.name, text=written_out(body, None, syntax=engine.syntax))
