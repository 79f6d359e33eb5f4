"""`lakewarden runs`: the runs of a daemon."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakewarden.cli.commands import DAEMON as SECTION
from lakewarden.cli.commands import command, group
from lakewarden.cli.exit_codes import Code
from lakewarden.cli.options import AsJson, KeyFile, Limit, Run, Url, client_of
from lakewarden.cli.terminal import Column, Kind, none_of, show_fields, show_list, watch_run
from lakewarden.client.bodies import RunState
from lakewarden.client.transport import DAEMON
from lakewarden.planners.model.printable import counted, printable, size, span
from lakewarden.service.commands.printing import as_written

app = group("The runs of a daemon: list, show and cancel them.")

ACTIVE: tuple[RunState, ...] = ("QUEUED", "RUNNING", "COMMITTING", "UNKNOWN")

COLUMNS = (
    Column("ID", lambda run: run["id"][:8]),
    Column("TABLE", "table"),
    Column("SERVICE", "service"),
    Column("STATE", "state", Kind.STATE),
    Column("STEP", "step"),
    Column("CREATED", "created_at", Kind.AGO),
    Column("TOOK", "run_seconds", Kind.SECONDS),
    Column("OUTCOME", lambda run: run.get("outcome") or run.get("waits_for") or run.get("reason")),
)


@command(app, "list")
def list_runs(
    table: Annotated[str | None, typer.Option("--table", help="Runs of this table.")] = None,
    service: Annotated[str | None, typer.Option("--service", help="Runs of this service.")] = None,
    state: Annotated[list[str] | None, typer.Option("--state", help="Runs in this state. May be repeated.")] = None,
    active: Annotated[bool, typer.Option("--active", help="Runs that have not ended.")] = False,
    limit: Limit = 50,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    client = client_of(url, key_file)
    states = [*(state or ()), *(ACTIVE if active else ())]
    filters: Mapping[str, Any] = {"table": table, "service": service, "state": states or None}
    show_list(client.runs, COLUMNS, limit=limit, as_json=as_json, empty=none_of("run", filters), **filters)


@command(app, "log")
def log_of_run(
    run: Run,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow the log until the run ends, or until Ctrl-C.")
    ] = False,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Print what the worker and its JVM wrote during a run. With --json, print a JSON object a line."""
    from lakewarden.service.commands.run import print_log  # noqa: PLC0415

    print_log(client_of(url, key_file), run, follow=follow, as_json=as_json, out=sys.stdout)


@command(app, "show")
def show_run(
    run: Run,
    watch: Annotated[bool, typer.Option("--watch", help="Show changes until the run ends, or until Ctrl-C.")] = False,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> int | None:
    """Show a run. With --watch, wait for its end; the exit code is 1 if it did not succeed."""
    client = client_of(url, key_file)
    answer = client.run(run)
    if watch and answer["ended_at"] is None:
        answer = watch_run(lambda: client.run(run), quiet=as_json)
    if as_json:
        print(as_written(answer))
    else:
        fields: dict[str, Any] = {name: value for name, value in answer.items() if name != "figures"}
        kinds = {name: Kind.AGO for name in fields if name.endswith("_at")}
        show_fields(fields | answer["figures"], kinds | {"run_seconds": Kind.SECONDS, "state": Kind.STATE})
    return Code.NO if watch and answer["state"] != "SUCCEEDED" else Code.DONE


@command(app, "cancel")
def cancel(run: Run, url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Stop a run that has not begun to commit. Its service backs off for ten minutes."""
    client = client_of(url, key_file)
    answer = client.cancel_run(client.run(run)["table"], run)
    cancelled = f"run {answer['id']} of {answer['service']} on {answer['table']} is cancelled; "
    again = f"`lakewarden quarantine release {answer['table']} {answer['service']}` ends that wait"
    line = printable(f"{cancelled}the service waits for ten minutes. {again}")
    print(as_written(answer) if as_json else line)


# `lakewarden status`: the last day of a daemon in twenty lines at most.

_MOST_REASONS = 5
_MOST_SERVICES = 3
_MOST_APPROVALS = 1


def register(app: typer.Typer) -> None:
    """Register the word."""
    command(app, "status", section=SECTION)(status)


def status(url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Show the last day: what ran, what is blocked and why, and what waits."""
    answer = client_of(url, key_file).fleet_status()
    if as_json:
        print(as_written(answer))
        return
    for line in lines(answer):
        print(printable(line))


def lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines."""
    yield (
        f"{counted(answer['tables'], 'table')}, {answer['failing']} cannot be observed, {answer['paused']} paused, "
        f"{counted(answer['active_runs'], 'run')} active"
    )
    ran = [f"{total['runs']} {total['service']} {total['state'].lower()}" for total in answer["ran"]]
    more = "" if answer["runs_complete"] else ", and more"
    yield f"ran in the last day: {', '.join(ran) or 'nothing'}{more}"
    blocked = [reason for reason in answer["blocked"] if reason["code"] != "approval_needed"]
    yield f"blocked services: {sum(reason['services'] for reason in blocked)}"
    for reason in blocked[:_MOST_REASONS]:
        yield (
            f"  {reason['code']}: {reason['services']} on {counted(reason['tables'], 'table')}, "
            f"first {reason['table']}. {reason['cure']}"
        )
    if len(blocked) > _MOST_REASONS:
        yield f"  and {len(blocked) - _MOST_REASONS} other reasons: --json has all"
    if (held := next((reason for reason in blocked if reason["code"] == "quarantined"), None)) is not None:
        tables = f"{counted(held['tables'], 'table')}, first {held['table']}"
        yield f"in quarantine: {counted(held['services'], 'service')} on {tables}"
    would = answer["would_run"]
    yield f"due, not run in mode plan: {counted(sum(forecast['tables'] for forecast in would), 'service')}"
    yield from map(_would_run, would[:_MOST_SERVICES])
    if left := would[_MOST_SERVICES:]:
        services = ", ".join(forecast["service"] for forecast in left)
        yield f"  and {sum(forecast['tables'] for forecast in left)} runs of {services}"
    approvals = answer["approvals"]
    yield f"deletions waiting for approval: {len(approvals)}"
    for approval in approvals[:_MOST_APPROVALS]:
        yield f"  {approval['table']} {approval['service']}: {counted(approval['files'], 'file')}"
    if others := answer["foreign_services"]:
        first = others[0]
        newest = f"{first['service']} {first['instant']}"
        yield f"other programs serve {counted(len(others), 'table')}, first {first['table']}: {newest}"
    yield f"writes that failed: {answer['writer_failures']}, {answer['writer_failures_near_us']} of them met a run"


def _would_run(forecast: Mapping[str, Any]) -> str:
    facts = [f"reads {_files(forecast['read_files'], forecast['read_bytes'])}"] if forecast["read_files"] else []
    facts += [f"writes {forecast['write_files']} files"] if forecast["write_files"] else []
    facts += (
        [f"deletes {_files(forecast['delete_files'], forecast['delete_bytes'])}"] if forecast["delete_files"] else []
    )
    facts += [f"{forecast['versions']} versions are deleted"] if forecast["versions"] else []
    with_past = forecast["tables"] - forecast["unknown"]
    facts += [f"about {span(forecast['seconds'])}, {forecast['core_seconds']:g} core-seconds"] if with_past else []
    facts += [f"no history yet for {forecast['unknown']} of them"] if forecast["unknown"] else []
    return f"  {forecast['service']} on {counted(forecast['tables'], 'table')}: {'; '.join(facts)}"


def _files(files: int, content: int) -> str:
    """Return so many files. Their size is left out where no table knows it."""
    return f"{counted(files, 'file')}, {size(content)}" if content else counted(files, "file")
