"""What is found when all is over: the table by a foreign reader, the runs, the failures and what is left running."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lakewarden.executors.demo.record import Batch, Record
from lakewarden.service.demo.files import count_file_versions
from lakewarden.service.demo.reader import Snapshot, count_wrong_rows, read_snapshot
from lakewarden.service.demo.report import Range
from live.acts import Acts
from live.blame import caused_by_us
from live.report import Failure, LiveReaderTally, LiveReport, LiveWriterTally, TimeTravel
from live.script import EACH_SUCCEEDS, Script
from live.tally import completed_twice, tallies
from live.travel import travel

_WORDS = 400


def findings(script: Script, acts: Acts, *, table: Path, processes_left: Sequence[str]) -> LiveReport:
    """Look at everything and return the report."""
    last = acts.last
    trouble = list(acts.trouble)
    expected = last.record.expected_rows()
    try:
        found = read_snapshot(table)
    except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises: no row is right then
        found = Snapshot(rows={}, log_files=0)
        trouble.append(f"the table cannot be read: {type(error).__name__}: {error}")
    return LiveReport(
        table_type=script.kind,
        writer_kind=script.writer,
        seconds=round(acts.seconds, 1),
        wanted_commits=script.commits,
        enabled=tuple(acts.policies),
        each_succeeds=EACH_SUCCEEDS,
        rows_expected=len(expected),
        rows_found=len(found.rows),
        rows_wrong=count_wrong_rows(found.rows, expected),
        writer=_writer(acts),
        reader=LiveReaderTally(
            queries=len(last.queries),
            failures=last.failed_queries,
            asked_again=sum(query.asked_again for query in last.queries),
        ),
        services=tallies(last.runs),
        log_files=Range(peak=last.log_files.peak, end=found.log_files),
        file_versions=Range(peak=last.file_versions.peak, end=count_file_versions(table)),
        time_travel=_time_travel(table, last.record, trouble),
        twice=completed_twice(last.runs),
        doubled_micro_batches=sorted(acts.doubled),
        daemon_exit_code=acts.daemon_exit_code,
        processes_left=processes_left,
        trouble=trouble,
    )


def _writer(acts: Acts) -> LiveWriterTally:
    failures: Sequence[Batch] = acts.last.record.failures()
    return LiveWriterTally(
        commits=acts.last.commits,
        failures=len(failures),
        caused_by_us=len(caused_by_us(failures, acts.last.runs)),
        failed=[Failure(at=batch.begun.isoformat(), message=batch.message[:_WORDS]) for batch in failures],
    )


def _time_travel(table: Path, record: Record, trouble: list[str]) -> TimeTravel:
    try:
        journeys = travel(table, record)
    except Exception as error:  # noqa: BLE001 - a timeline that a foreign reader cannot read is a finding
        trouble.append(f"the timeline cannot be read: {type(error).__name__}: {error}")
        return TimeTravel(instants=0)
    return TimeTravel(
        instants=len(journeys),
        wrong=[journey for journey in journeys if not journey.right and not journey.overtaken],
        overtaken=[journey for journey in journeys if journey.overtaken],
    )
