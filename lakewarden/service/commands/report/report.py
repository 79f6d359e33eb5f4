"""`lakewarden report`: finds tables, has them surveyed, and prints the worst first. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from rich.console import Console

from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.storage import Storages
from lakewarden.service.commands.report.document import document_of
from lakewarden.service.commands.report.lines import LakeReport, TableLine, UnreadLine
from lakewarden.service.commands.report.page import page_of
from lakewarden.service.commands.report.places import SearchSettings, tables_of
from lakewarden.service.commands.report.text import text_of
from lakewarden.service.commands.report.workers import SurveyLimits, surveyed
from lakewarden.service.config.loading import load
from lakewarden.service.reporting.terminal import ScreenPart

_FAILED = 2
_WIDE = 180
"""So many columns has the text in a file or a pipe."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportOptions:
    """What is asked for. `config` says how stores and catalogs are reached. `html` is the file of the page."""

    places: Sequence[str]
    exclude: Sequence[str] = ()
    config: Path | None = None
    format_name: str | None = None
    html: Path | None = None
    as_json: bool = False
    most: int = 20
    limits: SurveyLimits = field(default_factory=SurveyLimits)


def print_report(options: ReportOptions, *, out: TextIO, err: TextIO) -> int:
    """Print the report and return the exit code.

    It is 0 if there is a table that could be read, and 2 otherwise: then one line on `err` says why. A table that
    cannot be read is a line of the report.
    """
    try:
        report = report_of(options, err=err)
    except LakewardenError as error:
        _say(err, str(error))
        return _FAILED
    if options.html is not None:
        try:
            options.html.write_text(page_of(report), encoding="utf-8")
        except OSError as error:
            _say(err, f"{options.html} cannot be written: {error.strerror}")
            return _FAILED
    if options.as_json:
        print(document_of(report), file=out)
    else:
        width = None if out.isatty() else _WIDE
        Console(file=out, highlight=False, width=width).print(ScreenPart(text_of(report, most=options.most)))
        if options.html is not None:
            print(f"The page is in {printable(str(options.html))}", file=out)
    return 0 if report.tables else _FAILED


def report_of(options: ReportOptions, *, err: TextIO) -> LakeReport:
    """Return the report. Raises PermanentError if no argument names a table, and what reading a place raises if it is
    the only one.
    """
    config = None if options.config is None else load(options.config)
    stores = () if config is None else config.settings.storage
    settings = SearchSettings(
        storages=Storages(stores),
        catalogs={} if config is None else config.catalogs,
        exclude=options.exclude,
        format_name=options.format_name,
    )
    at = datetime.now(UTC).isoformat(timespec="seconds")
    tables, unread = _found(options.places, settings)
    if not tables and not unread:
        raise PermanentError(f"there is no table below {', '.join(options.places)}")
    done = 0

    def told(_: Table) -> None:
        nonlocal done
        done += 1
        if err.isatty():
            print(f"\r{done} of {len(tables)} tables", end="" if done < len(tables) else "\n", file=err, flush=True)

    answers = surveyed(tables, stores=stores, limits=options.limits, told=told)
    lines: list[TableLine] = []
    for table, answer in zip(tables, answers, strict=True):
        if answer.table is not None:
            lines.append(answer.table)
        else:
            reason = answer.unread or "there is no answer"
            unread.append(UnreadLine(location=table.location, format=table.format, reason=reason))
    return LakeReport(
        at=at,
        places=tuple(options.places),
        tables=tuple(sorted(lines, key=lambda line: line.badness)),
        unread=tuple(unread),
    )


def _found(places: Sequence[str], settings: SearchSettings) -> tuple[list[Table], list[UnreadLine]]:
    """Return the tables, each once, and what could not be searched. If nothing could, the first error is raised."""
    tables: dict[str, Table] = {}
    unread: list[UnreadLine] = []
    for place in places:
        try:
            for one in tables_of(place, settings):
                if isinstance(one, UnreadLine):
                    unread.append(one)
                else:
                    tables.setdefault(one.location, one)
        except LakewardenError as error:
            if len(places) == 1:
                raise
            unread.append(UnreadLine(location=place, format=None, reason=str(error)))
    return list(tables.values()), unread


def _say(err: TextIO, message: str) -> None:
    print("lakewarden report:", printable(" ".join(message.split())), file=err)
