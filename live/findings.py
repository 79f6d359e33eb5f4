"""What is found when all is over: the table by a foreign reader, the runs, the failures and what is left running."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.demo.reader import Snapshot, count_wrong_rows
from lakewarden.demo.report import Range, WriterTally
from lakewarden.demo.writers.record import Record, read_record
from live.acts import Acts
from live.report import Failure, LiveReaderTally, LiveReport, LiveWriterTally, TimeTravel
from live.script import EACH_SUCCEEDS
from live.tally import completed_twice, tallies

_WORDS = 400


def findings(acts: Acts, *, processes_left: Sequence[str]) -> LiveReport:
    """Look at everything and return the report."""
    last, stage = acts.last, acts.stage
    trouble = list(acts.trouble)
    expected = last.record.expected_rows()
    try:
        found = stage.piece.read(stage.directory)
    except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises: no row is right then
        found = Snapshot(rows={})
        trouble.append(f"the table cannot be read: {type(error).__name__}: {error}")
    ends = {**found.counted, **stage.piece.count_stored(stage.directory)}
    return LiveReport(
        table_type=acts.table_type,
        writer_kind=acts.writer_kind,
        seconds=round(acts.seconds, 1),
        wanted_commits=acts.script.commits,
        enabled=tuple(acts.promised),
        each_succeeds=EACH_SUCCEEDS,
        rows_expected=len(expected),
        rows_found=len(found.rows),
        rows_wrong=count_wrong_rows(found.rows, expected),
        writer=_writer(acts, last.record),
        writers={path.stem: _writer(acts, read_record(path)) for path in stage.records},
        reader=LiveReaderTally(
            queries=len(last.queries),
            failures=last.failed_queries,
            asked_again=sum(query.asked_again for query in last.queries),
        ),
        services=tallies(last.runs),
        counted={name: Range(peak=gauge.peak, end=ends.get(name, 0)) for name, gauge in last.counts.items()},
        time_travel=_time_travel(acts, trouble),
        twice=completed_twice(last.runs),
        doubled_micro_batches=sorted(acts.doubled),
        daemon_exit_code=acts.daemon_exit_code,
        processes_left=processes_left,
        trouble=trouble,
    )


def _writer(acts: Acts, record: Record) -> LiveWriterTally:
    failures, tally = record.failures(), WriterTally.of(record)
    return LiveWriterTally(
        commits=tally.commits,
        failures=tally.failures,
        reasons=tally.reasons,
        caused_by_us=len(acts.caused_by_us(failures)),
        failed=[Failure(at=batch.begun.isoformat(), message=batch.message[:_WORDS]) for batch in failures],
    )


def _time_travel(acts: Acts, trouble: list[str]) -> TimeTravel:
    try:
        journeys = acts.travel()
    except Exception as error:  # noqa: BLE001 - a timeline that a foreign reader cannot read is a finding
        trouble.append(f"the timeline cannot be read: {type(error).__name__}: {error}")
        return TimeTravel(instants=0)
    return TimeTravel(
        instants=len(journeys),
        wrong=[journey for journey in journeys if not journey.right and not journey.overtaken],
        overtaken=[journey for journey in journeys if journey.overtaken],
    )
