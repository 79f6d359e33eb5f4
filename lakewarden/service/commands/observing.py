"""Tables without a daemon: they are observed in reader processes, as a daemon does, and judged by its defaults.

`lakewarden report` does so with all tables of a lake, and `lakewarden explain PATH` with one.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import structlog

from lakewarden.planners.decide import ServiceState, decide
from lakewarden.planners.model.decision import Decision
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable_values
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.reading.observing import Answers, ObservationAnswer, ObservationRequest
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage.locations import by_place
from lakewarden.service.commands.places import table_at
from lakewarden.service.commands.printing import as_written
from lakewarden.service.config.document import ReadingSettings
from lakewarden.service.config.loading import Config, load
from lakewarden.service.config.policies import first_policies
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.reporting.explain.assembly import explain
from lakewarden.service.reporting.explain.bodies import TableExplanation
from lakewarden.service.reporting.explain.text import written_out
from lakewarden.service.rules.forecast import Past, forecast
from lakewarden.service.state.readers.processes import ProcessReaders

_FAILED = 2


def as_served(table: Table, config: Config | None) -> Table:
    """Return a table with the settings that the configuration has for it. Without an entry there they are those of
    `lakewarden init`: the services of a first configuration, with each default of a daemon.
    """
    place = by_place(table.location)
    for listed in () if config is None else config.tables:
        if by_place(listed.location) == place:
            return listed
    table_format = FORMATS[table.format]
    return replace(
        table, options=table_format.table_options(), policies={**first_policies(table_format), **table.policies}
    )


def observed(
    tables: Sequence[Table], config: Config | None, *, settings: ReadingSettings | None = None
) -> Iterator[tuple[Table, TableView | str]]:
    """Yield each table with its view, or with the reason why it cannot be read, in the order of the answers.

    A table that hangs, needs too much memory or ends its process is a reason, and the others are not affected. What the
    readers would log is such a reason, so it is not printed.
    """
    logs = structlog.get_config()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    settings = settings or (ReadingSettings() if config is None else config.settings.reading)
    answers = queue.SimpleQueue[ObservationAnswer]()

    def take(given: Answers) -> None:
        for answer in given.others:
            answers.put(answer)

    readers = ProcessReaders(
        settings=settings.model_copy(update={"processes": max(1, min(settings.processes, len(tables)))}),
        stores=() if config is None else config.settings.storage,
        roots=() if config is None else config.roots,
    )
    waiting = dict(enumerate(tables, 1))
    readers.open(take)
    try:
        readers.begin([ObservationRequest(ticket, table, anew=True) for ticket, table in waiting.items()])
        while waiting:
            answer = answers.get()
            table = waiting.pop(answer.ticket, None)
            if table is None:
                continue
            if answer.observation is not None:
                yield table, answer.observation.view
            else:
                yield table, "no answer" if answer.failure is None else answer.failure.message
    finally:
        readers.close()
        structlog.configure(**logs)


def decisions_on(table: Table, view: TableView, *, now: datetime) -> Mapping[Service, Decision]:
    """Return the decision on each service, as a daemon decides in the mode plan."""
    state = ServiceState(mode=Mode.PLAN)
    return {
        service: decide(service=service, view=view, policy=policy, service_state=state, now=now)
        for service, policy in table.policies.items()
    }


def explain_path(place: str, *, config: Path | None, format_name: str | None, as_json: bool, out: TextIO) -> int:
    """Print what would run on a table that no daemon has to know, and why. Return 2 if a part of it cannot be read.

    Raises PermanentError if there is no table, and TemporaryError if its store or its catalog does not answer.
    """
    loaded = None if config is None else load(config)
    served = as_served(table_at(place, loaded, format_name=format_name), loaded)
    [(table, view)] = observed([replace(served, poll=timedelta())], loaded)
    if isinstance(view, str):
        raise PermanentError(view)
    now = datetime.now(UTC)
    explanation = explanation_of(table, view, now=now)
    if as_json:
        print(as_written(printable_values(explanation.model_dump(mode="json"), lines=False)), file=out)
    else:
        print(written_out(explanation), file=out)
    return _FAILED if view.faults else 0


def explanation_of(table: Table, view: TableView, *, now: datetime) -> TableExplanation:
    """Return the explanation of a table that was looked at once: there is no past, and its mode is plan. Pure."""
    forecasts = {service: work for service in table.policies if (work := forecast(service, view, Past())) is not None}
    return explain(
        TableStatus(table=replace(table, mode=Mode.PLAN), view=view),
        decided=[
            DecisionRow.of(table.id, service, decision, now)
            for service, decision in decisions_on(table, view, now=now).items()
        ],
        last_runs={},
        waiting={},
        now=now,
        polled_ago=timedelta(),
        forecasts=forecasts,
    )
