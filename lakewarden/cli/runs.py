"""`lakewarden runs`: the runs of a daemon."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from lakewarden.cli.codes import Code
from lakewarden.cli.commands import command, group
from lakewarden.cli.options import AsJson, KeyFile, Limit, Run, Url, Watch, client_of
from lakewarden.cli.terminal import Column, Kind, show_fields, show_list
from lakewarden.client.bodies import RunBody, RunState
from lakewarden.client.transport import DAEMON
from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.commands.printing import as_written, run_line

app = group("The runs of a daemon: list, show, cancel and retry them.")

ACTIVE: tuple[RunState, ...] = ("QUEUED", "RUNNING", "COMMITTING", "UNKNOWN")

COLUMNS = (
    Column("ID", "id"),
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
    watch: Watch = False,
    limit: Limit = 50,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first."""
    client = client_of(url, key_file)
    states = [*(state or ()), *(ACTIVE if active else ())]
    asked: Mapping[str, Any] = {"table": table, "service": service, "state": states or None}
    if watch:
        from lakewarden.cli.terminal import watch_runs  # noqa: PLC0415

        _no_json(as_json)
        most = min(limit or client.PAGE, client.PAGE)
        watch_runs(lambda: client.runs(**asked, limit=most)["items"], COLUMNS)
    show_list(client.runs, COLUMNS, limit=limit, as_json=as_json, empty="there is no such run", **asked)


@command(app, "log")
def log_of_run(
    run: Run,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended, or until Ctrl-C.")] = False,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Print what the worker and its JVM wrote during a run. With --json, print a JSON object a line."""
    from lakewarden.service.commands.run import print_log  # noqa: PLC0415

    print_log(client_of(url, key_file), run, follow=follow, as_json=as_json, out=sys.stdout)


@command(app, "show")
def show_run(
    run: Run, watch: Watch = False, url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False
) -> int | None:
    """Show a run. With --watch, wait until it has ended. The exit code is then 1 if the run did not succeed."""
    client = client_of(url, key_file)
    answer = client.run(run)
    if watch and answer["ended_at"] is None:
        from lakewarden.cli.terminal import watch_run  # noqa: PLC0415

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
    _asked(client.cancel_run(client.run(run)["table"], run), as_json=as_json)


@command(app, "retry")
def retry(run: Run, url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Run the service of a run again, as that run was asked for."""
    client = client_of(url, key_file)
    _asked(client.retry_run(client.run(run)["table"], run), as_json=as_json)


def _asked(run: RunBody, *, as_json: bool) -> None:
    print(as_written(run) if as_json else run_line(run))


def _no_json(as_json: bool) -> None:
    if as_json:
        raise PermanentError("--watch shows changes to people: leave out --json, or use 'lakewarden runs show --watch'")
