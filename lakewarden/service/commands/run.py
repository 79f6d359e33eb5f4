"""The runs of a daemon: asked for, and followed in their log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TextIO

from lakewarden.client import Client
from lakewarden.client.bodies import DryRunExplanation, LogLineBody
from lakewarden.executors.pool.listening import LogLine
from lakewarden.planners.model.printable import printable, printable_values
from lakewarden.service.commands.printing import about_table, as_written, run_line
from lakewarden.service.reporting.event_log import written_out


def run_service(client: Client, table: str, service: str, *, dry_run: bool, as_json: bool, out: TextIO) -> None:
    """Ask for a run, and print which it is. With `dry_run`, print what the request would meet.

    A run that is asked for skips the trigger and the window of the policy. It never skips a block. Raises ClientError.
    """
    if dry_run:
        dry = about_table(client, table, lambda: client.dry_run(table, service))
        print(as_written(dry) if as_json else _dry(dry), file=out)
        return
    run = about_table(client, table, lambda: client.request_run(table, service))
    print(as_written(run) if as_json else run_line(run), file=out)


def rewrite_all(client: Client, table: str, service: str, *, as_json: bool, out: TextIO) -> None:
    """Ask for a rewrite of all files, and print its first run. Raises ClientError."""
    run = about_table(client, table, lambda: client.request_run(table, service, body={"rewrite_all": True}))
    waits = "" if run.get("rewrite_all") else ". The rewrite of all files begins after it"
    print(as_written(run) if as_json else run_line(run) + waits, file=out)


def end_rewrite(client: Client, table: str, service: str, *, out: TextIO) -> None:
    """Withdraw a rewrite of all files. Raises ClientError."""
    about_table(client, table, lambda: client.end_rewrite(table, service))
    print(printable(f"the rewrite of all files of {table} is withdrawn: no further run of it begins"), file=out)


def _dry(answer: DryRunExplanation) -> str:
    says = printable(f"{answer['table']}  {answer['service']}: {answer['says']}")
    remedy = answer["remedy"]
    return says if remedy is None else f"{says}\n  -> {printable(remedy, lines=True)}"


_AGAIN_SECONDS = 1.0
_PAGE = 1000


def print_log(
    client: Client,
    run: str,
    *,
    follow: bool,
    as_json: bool,
    out: TextIO,
    rest: Callable[[float], None] = time.sleep,
) -> None:
    """Print the lines of a run. With `follow`, print new lines until the run has ended. Raises ClientError."""
    last = 0
    while True:
        over = not follow or client.run(run)["ended_at"] is not None  # asked before the lines, so that none is missed
        while True:
            page = client.run_log(run, after=last, limit=_PAGE)
            _print(page["items"], after=last, as_json=as_json, out=out)
            last = page["items"][-1]["number"] if page["items"] else last
            if page["next"] is None:
                break
        if over:
            return
        rest(_AGAIN_SECONDS)


def _print(items: list[LogLineBody], *, after: int, as_json: bool, out: TextIO) -> None:
    if as_json:
        for item in items:
            print(json.dumps(printable_values(item)), file=out)
    else:
        for line in written_out([LogLine(**item) for item in items], after=after):
            print(printable(line, most=100_000, lines=True), file=out)
    out.flush()
