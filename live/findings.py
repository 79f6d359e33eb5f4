"""The findings at the end: the table as a foreign reader finds it, the runs, the failures, and the processes that still
run.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.demo.reader import TableRows, count_wrong_rows
from lakewarden.demo.report import Range, WriterTally
from lakewarden.demo.writers.orders import Record, read_record
from live.goal import EACH_SUCCEEDS
from live.report import Failure, LiveReaderTally, LiveReport, LiveWriterTally, TimeTravel
from live.scenario import LiveScenario
from live.tally import completed_twice, failed, tallies

_WORDS = 400


def findings(scenario: LiveScenario, *, processes_left: Sequence[str]) -> LiveReport:
    """Examine the table, the runs and the processes, and return the report."""
    last, environment = scenario.last, scenario.environment
    errors = list(scenario.errors)
    expected = last.record.expected_rows()
    try:
        found = environment.format_demo.read(environment.directory)
    except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises: no row is right then
        found = TableRows(rows={})
        errors.append(f"the table cannot be read: {type(error).__name__}: {error}")
    ends = {**found.counted, **environment.format_demo.count_stored(environment.directory)}
    return LiveReport(
        table_type=scenario.table_type,
        writer_kind=scenario.writer_kind,
        seconds=round(scenario.seconds, 1),
        wanted_commits=scenario.goal.commits,
        enabled=tuple(scenario.promised),
        each_succeeds=EACH_SUCCEEDS,
        rows_expected=len(expected),
        rows_found=len(found.rows),
        rows_wrong=count_wrong_rows(found.rows, expected),
        writer=writer_tally(scenario, last.record),
        writers={path.stem: writer_tally(scenario, read_record(path)) for path in environment.records},
        reader=LiveReaderTally(
            queries=len(last.queries),
            failures=last.failed_queries,
            asked_again=sum(query.asked_again for query in last.queries),
        ),
        services=tallies(last.runs),
        counted={name: Range(peak=gauge.peak, end=ends.get(name, 0)) for name, gauge in last.counts.items()},
        time_travel=_time_travel(scenario, errors),
        twice=completed_twice(last.runs),
        failed_runs=failed(last.runs),
        doubled_micro_batches=sorted(scenario.doubled),
        daemon_exit_code=scenario.daemon_exit_code,
        processes_left=processes_left,
        errors=errors,
    )


def writer_tally(scenario: LiveScenario, record: Record) -> LiveWriterTally:
    """Return what a writer has recorded. It says which failures Lakewarden has caused."""
    failures, tally = record.failures(), WriterTally.of(record)
    return LiveWriterTally(
        commits=tally.commits,
        failures=tally.failures,
        reasons=tally.reasons,
        caused_by_us=len(scenario.caused_by_us(failures)),
        failed=[Failure(at=batch.begun.isoformat(), message=batch.message[:_WORDS]) for batch in failures],
    )


def _time_travel(scenario: LiveScenario, errors: list[str]) -> TimeTravel:
    try:
        journeys = scenario.travel()
    except Exception as error:  # noqa: BLE001 - a timeline that a foreign reader cannot read is a finding
        errors.append(f"the timeline cannot be read: {type(error).__name__}: {error}")
        return TimeTravel(instants=0)
    return TimeTravel(
        instants=len(journeys),
        wrong=[journey for journey in journeys if not journey.right and not journey.overtaken],
        overtaken=[journey for journey in journeys if journey.overtaken],
    )
