"""Gathers the history of a Paimon table. No code of Lakewarden is used, for it is under test."""

from __future__ import annotations

from collections.abc import Mapping

from faults.checking.history import TimelineFound
from lakewarden.demo.reader import count_wrong_rows
from live.paimon.history import SnapshotsSeen
from live.paimon.plain_reader import PlainReader


def timeline_found(seen: SnapshotsSeen) -> TimelineFound:
    """Return our snapshots, each with the run that it names. Those that have expired count, too."""
    completed = {number: service.value for number, service in seen.services().items()}
    return TimelineFound(completed=completed, authors=seen.authors())


def files_needed(reader: PlainReader) -> dict[str, set[str]]:
    """Return the names of the files that each snapshot needs. A manifest that is gone is one of them."""
    needed = {}
    for number, snapshot in reader.snapshots().items():
        try:
            needed[str(number)] = set(reader.content(snapshot).needed)
        except FileNotFoundError as gone:
            needed[str(number)] = {str(gone.filename)}
    return needed


def rows_changed(reader: PlainReader, seen: SnapshotsSeen) -> Mapping[str, int]:
    """Return our snapshots with other rows than those before them, each with the number of rows. If one of the two has
    expired or cannot be read, it is left out: time travel reports that.
    """
    there, changed = reader.snapshots(), {}
    for number in seen.compacted():
        if number not in there or number - 1 not in there:
            continue
        try:
            wrong = count_wrong_rows(reader.rows(there[number]).rows, reader.rows(there[number - 1]).rows)
        except (OSError, ValueError, KeyError):
            continue
        if wrong:
            changed[str(number)] = wrong
    return changed
