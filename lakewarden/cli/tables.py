"""`lakewarden tables`: the tables of a daemon, their registrations, and pauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from lakewarden.cli.commands import command, group
from lakewarden.cli.options import AsJson, KeyFile, Limit, Reason, Table, Url, client_of
from lakewarden.cli.terminal import Column, Kind, none_of, show_fields, show_items, show_list
from lakewarden.client.bodies import ChangedTableRequest, RegisteredTableRequest
from lakewarden.client.transport import DAEMON
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.printing import about_table, as_written

app = group("The tables of a daemon: list, show, register, change, remove, pause and resume them.")

OptionalTable = Annotated[str | None, typer.Argument(help="The id of the table. Without it, --all is needed.")]
All = Annotated[bool, typer.Option("--all", help="All tables of the daemon.")]


def state_of(table: Mapping[str, Any]) -> str:
    """Return the worst that is known of a table, in one word, with its reason."""
    if table.get("failure"):
        return f"failing: {table['failure']}"
    if table.get("paused"):
        return f"paused: {table['paused']}"
    decided = {name: service["decision"] for name, service in table["services"].items() if service.get("decision")}
    waits = [name for name, decision in decided.items() if decision.get("code") == "approval_needed"]
    if waits:
        return f"waiting for approval: {', '.join(waits)}"
    blocked = [name for name, decision in decided.items() if decision["decision"] == "Blocked"]
    if blocked:
        return f"blocked: {', '.join(blocked)}"
    running = [name for name, service in table["services"].items() if service.get("active_run")]
    if running:
        return f"runs: {', '.join(running)}"
    due = [name for name, decision in decided.items() if decision["decision"] == "Due"]
    if due:
        return f"due: {', '.join(due)}"
    would = [name for name, decision in decided.items() if decision["decision"] == "WouldRun"]
    if table.get("observed_seconds_ago") is None:
        return "not observed yet"
    return f"due, not run in mode plan: {', '.join(would)}" if would else "nothing due"


_COLUMNS = (
    Column("ID", "id"),
    Column("FORMAT", "format"),
    Column("MODE", "mode"),
    Column("OBSERVED AGO", "observed_seconds_ago", Kind.SECONDS),
    Column("STATE", state_of, Kind.STATE),
)


@command(app, "list")
def list_tables(
    pattern: Annotated[str | None, typer.Option("--id", help="A pattern for ids, with * and ?.")] = None,
    format_name: Annotated[str | None, typer.Option("--format", help="Tables of this format.")] = None,
    mode: Annotated[str | None, typer.Option("--mode", help="Tables in this mode: observe, plan or act.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="Tables with a label: NAME, or NAME=VALUE.")] = None,
    only: Annotated[
        Literal["blocked", "failing", "paused"] | None,
        typer.Option("--only", help="Tables with a blocked service, tables that cannot be observed, or paused tables."),
    ] = None,
    limit: Limit = 0,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """List the tables that the key may view."""
    filters: dict[str, Any] = {"id": pattern, "format": format_name, "mode": mode, "label": label}
    if only is not None:
        filters[only] = True
    page = client_of(url, key_file).tables
    show_list(page, _COLUMNS, limit=limit, as_json=as_json, empty=none_of("table", filters), **filters)


_SERVICES = (
    Column("SERVICE", "name"),
    Column("DECISION", "decision", Kind.STATE),
    Column("PENDING", "pending"),
    Column("RUN", "active_run"),
    Column("REASON", "reason"),
)


@command(app, "show")
def show_table(table: Table, url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Show a table: its state, its writers, and the decision on each service."""
    client = client_of(url, key_file)
    answer = about_table(client, table, lambda: client.table(table))
    if as_json:
        print(as_written(answer))
        return
    fields: dict[str, Any] = {name: value for name, value in answer.items() if name not in ("services", "writers")}
    show_fields(fields | _of_writers(answer.get("writers")), {"observed_at": Kind.AGO, "last_commit_at": Kind.AGO})
    print()
    services = [
        {
            **(service["decision"] or {"decision": None}),
            "name": name,
            **{k: service[k] for k in ("pending", "active_run")},
        }
        for name, service in answer["services"].items()
    ]
    show_items(services, _SERVICES, empty="no service has a policy")


def _of_writers(writers: Mapping[str, Any] | None) -> dict[str, Any]:
    if writers is None:
        return {}
    return {
        "last_commit_at": writers["last_commit_at"],
        "writes_in_flight": [writer["instant"] for writer in writers["in_flight"]],
        "failed_writes": [f"{writer['at']} {writer['reason']}" for writer in writers["failures"]],
    }


Policy = Annotated[str | None, typer.Option("--policy", help="A policy of the configuration.")]
AsMode = Annotated[
    Literal["observe", "plan", "act"] | None,
    typer.Option("--mode", help="How far the daemon goes: observe, plan or act."),
]
Labels = Annotated[list[str] | None, typer.Option("--label", help="A label, as NAME=VALUE. May be repeated.")]
Entry = Annotated[
    Path | None,
    typer.Option("--entry", help="A YAML file with the table's entry, as it would stand in the configuration."),
]


@command(app, "register")
def register_table(
    path: Annotated[str, typer.Argument(help="The path of the table, or catalog://NAME/NAMESPACE.TABLE.")],
    id_: Annotated[str | None, typer.Option("--id", help="Its id. The default is its path with dots.")] = None,
    format_name: Annotated[str | None, typer.Option("--format", help="Its format.")] = None,
    policy: Policy = None,
    mode: AsMode = None,
    label: Labels = None,
    entry: Entry = None,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Register a table. The daemon serves it at once, and keeps it in its store."""
    options = {"path": path, "id": id_, "format": format_name, "policy": policy, "mode": mode, "labels": _labels(label)}
    body = {**_entry(entry), **_without_none(options)}
    answer = client_of(url, key_file).register_table(body=cast(RegisteredTableRequest, body))
    print(as_written(answer) if as_json else printable(_outcome(answer, "registered")))


@command(app, "change")
def change_table(
    table: Table,
    policy: Policy = None,
    mode: AsMode = None,
    label: Labels = None,
    entry: Entry = None,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of a registered table. The others stay. --entry replaces all of them by those of the file."""
    client = client_of(url, key_file)
    former: Mapping[str, Any] = client.registration(table)["entry"]
    base = {name: value for name, value in former.items() if name != "id"}
    if entry is not None:
        base = {"path": former["path"], "format": former.get("format"), **_entry(entry)}
    options = {"policy": policy, "mode": mode, "labels": _labels(label)}
    body = {
        name: value for name, value in {**base, **{k: v for k, v in options.items() if v}}.items() if value is not None
    }
    answer = client.change_table(table, body=cast(ChangedTableRequest, body))
    print(as_written(answer) if as_json else printable(_outcome(answer, "changed")))


@command(app, "remove")
def remove_table(table: Table, url: Url = DAEMON, key_file: KeyFile = None) -> None:
    """Stop serving a registered table, once its runs have ended. The table itself is not touched."""
    client_of(url, key_file).remove_table(table)
    print(printable(f"{table} is removed: the daemon releases it once its runs have ended"))


_REGISTRATIONS = (
    Column("ID", "id"),
    Column("PATH", lambda row: row["entry"].get("path")),
    Column("MODE", lambda row: row["entry"].get("mode")),
    Column("POLICY", lambda row: row["entry"].get("policy")),
    Column("BY", "registered_by"),
    Column("AT", "registered_at", Kind.AGO),
    Column("PROBLEM", "problem", Kind.STATE),
)


@command(app, "registered")
def list_registered(limit: Limit = 0, url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """List the tables that were registered over the API or the command line, and why one is not served."""
    page = client_of(url, key_file).registrations
    show_list(
        page,
        _REGISTRATIONS,
        limit=limit,
        as_json=as_json,
        empty="no table is registered over the API or the command line",
    )


def _outcome(answer: Mapping[str, Any], done: str) -> str:
    return f"{answer['id']} is {done}" + (f", and is not served: {answer['problem']}" if answer["problem"] else "")


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _labels(labels: Sequence[str] | None) -> dict[str, str] | None:
    if labels is None:
        return None
    pairs = [label.partition("=") for label in labels]
    wrong = next((name for name, equal, value in pairs if not equal), None)
    if wrong is not None:
        raise PermanentError(f"--label {wrong}: write NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _entry(file: Path | None) -> dict[str, Any]:
    """Return the entry in a file. Raises PermanentError if it has none."""
    if file is None:
        return {}
    from lakewarden.service.config.document import read_document  # noqa: PLC0415

    document = read_document(file)
    if document.values is None or document.problems:
        raise PermanentError("\n".join(document.told(problem) for problem in document.problems))
    return dict(document.values)


@command(app, "pause")
def pause(
    table: OptionalTable = None,
    everything: All = False,
    reason: Reason = None,
    url: Url = DAEMON,
    key_file: KeyFile = None,
) -> None:
    """Pause a table, or all tables. No more runs start. Active runs stop after their current step.

    A commit that was permitted already goes on.
    """
    client, named = client_of(url, key_file), _named(table, everything=everything)
    if named is None:
        client.pause(body=None if reason is None else {"reason": reason})
    else:
        about_table(
            client, named, lambda: client.pause_table(named, body=None if reason is None else {"reason": reason})
        )
    ends = f"'lakewarden tables resume {named or '--all'}' ends it"
    print(printable(f"{named or 'every table'} is paused: {ends}. 'lakewarden runs --active' shows what is under way"))


@command(app, "resume")
def resume(table: OptionalTable = None, everything: All = False, url: Url = DAEMON, key_file: KeyFile = None) -> None:
    """Resume a table, or all tables. This also ends every backoff and quarantine of the table."""
    client, named = client_of(url, key_file), _named(table, everything=everything)
    if named is None:
        client.resume()
    else:
        about_table(client, named, lambda: client.resume_table(named))
    print(printable(f"{named or 'every table'} is resumed"))


def _named(table: str | None, *, everything: bool) -> str | None:
    if (table is None) is not everything:
        raise PermanentError("name one table or use --all, not both")
    return table
