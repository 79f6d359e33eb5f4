"""`lakewarden trigger`: ask a running daemon for a run of a service, or say what is known of such a run."""

from __future__ import annotations

import time
from typing import TextIO

from lakewarden.client import Client, DaemonAwayError, NotFoundError
from lakewarden.client.bodies import DryRunExplanation, RunBody
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.explain import explained
from lakewarden.service.commands.names import about_table
from lakewarden.service.commands.printing import as_written, run_line
from lakewarden.service.reporting.explain.bodies import TableExplanation
from lakewarden.service.reporting.explain.text import service_written_out

_PLANNED_WITHIN = 600.0


def run_service(client: Client, table: str, service: str, *, dry_run: bool, as_json: bool, out: TextIO) -> int:
    """Ask for a run, print which it is, and return 0. With `dry_run`, print what the request would meet.

    A run that is asked for skips the trigger and the window of the policy. It never skips a block. Raises ClientError.
    """
    answer = about_table(client, table, lambda: client.explain_table(table))
    if service not in answer["services"]:
        able = ", ".join(answer["services"]) or "none"
        raise NotFoundError(f"table {table} has no policy for {service!r}; it has: {able}")
    if dry_run:
        found = client.dry_run(table, service)
        print(as_written(found) if as_json else _dry(found, explained(answer, client)), file=out)
        return 0
    run = client.request_run(table, service)
    print(as_written(run) if as_json else run_line(run), file=out)
    return 0


def rewrite_all(client: Client, table: str, service: str, *, dry_run: bool, as_json: bool, out: TextIO) -> int:
    """Ask for a rewrite of all files, print its first run, and return 0. With `dry_run`, wait until the daemon has made
    the plan, and print its figures. Then the code is 1 if there is no plan.

    Raises ClientError, also if a dry run has not ended within ten minutes.
    """
    run = about_table(
        client, table, lambda: client.request_run(table, service, body={"rewrite_all": True, "dry_run": dry_run})
    )
    if not dry_run:
        waits = "" if run.get("rewrite_all") else ". The rewrite of all files begins after it"
        print(as_written(run) if as_json else run_line(run) + waits, file=out)
        return 0
    run = _ended(client, run["id"])
    print(as_written(run) if as_json else _planned(run), file=out)
    return 0 if run["state"] == "SUCCEEDED" else 1


def end_rewrite(client: Client, table: str, service: str, *, out: TextIO) -> None:
    """Withdraw a rewrite of all files. Raises ClientError."""
    about_table(client, table, lambda: client.end_rewrite(table, service))
    print(printable(f"the rewrite of all files of {table} is withdrawn: no further run of it begins"), file=out)


def _ended(client: Client, run: str) -> RunBody:
    give_up = time.monotonic() + _PLANNED_WITHIN
    while True:
        found = client.run(run)
        if found["ended_at"] is not None:
            return found
        if time.monotonic() > give_up:
            raise DaemonAwayError(f"the dry run {run} goes on: 'lakewarden runs show {run}' shows it")
        time.sleep(0.5)


def _planned(run: RunBody) -> str:
    lines = [f"{run['table']}  {run['service']}: {run['outcome']}"]
    lines += [f"  {name:18} {value}" for name, value in run["figures"].items()]
    return "\n".join(printable(line) for line in lines)


def _dry(found: DryRunExplanation, explanation: TableExplanation) -> str:
    line = f"{found['table']}  {found['service']}: {found['says']}"
    remedy = [] if found["remedy"] is None else [f"  -> {found['remedy']}"]
    known = service_written_out(explanation, found["service"])
    return "\n".join([*(printable(one) for one in [line, *remedy]), known])
