"""The words about one table: explain, trigger, decisions, timeline and policies."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lakewarden.cli.commands import TABLES, command, need_server
from lakewarden.cli.options import AsJson, KeyFile, Limit, Service, Table, Url, client_of, config_for, tables_that_begin
from lakewarden.cli.terminal import Column, Kind, none_of, show_items, show_list
from lakewarden.client.transport import DAEMON
from lakewarden.service.commands.printing import about_table, as_written


def register(app: typer.Typer) -> None:
    """Register the words."""
    command(app, "explain", section=TABLES)(explain)
    command(app, "trigger", section=TABLES)(trigger)
    command(app, "decisions", section=TABLES)(decisions)
    command(app, "timeline", section=TABLES)(timeline)
    command(app, "policies", section=TABLES)(policies)


_WHICH = (
    "The id of a table of the daemon. Or a table that needs no daemon: a path with a slash, or "
    "catalog://NAME/NAMESPACE.TABLE of --config."
)
_AT = "A past moment in RFC 3339, for example 2026-11-23T12:00:00Z: print what was decided and what ran then."


def explain(
    table: Annotated[str, typer.Argument(help=_WHICH, autocompletion=tables_that_begin)],
    at: Annotated[str | None, typer.Option("--at", help=_AT)] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="The configuration with the catalog, store and policies of a path.")
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", help="The format of the table at a path, if its files do not show it.")
    ] = None,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> int | None:
    """Print what would run on a table, and why. For an id, the daemon answers.

    A path is read once, by the default settings and without a change. The exit code is 2 if a part cannot be read.
    """
    from lakewarden.service.commands.explain import explain_table  # noqa: PLC0415

    if "/" in table:
        from lakewarden.service.commands.observing import explain_path  # noqa: PLC0415

        if at is not None:
            raise typer.BadParameter("only a daemon keeps the history of a table", param_hint="--at")
        need_server()
        return explain_path(
            table, config=config_for([table], config), format_name=format_name, as_json=as_json, out=sys.stdout
        )
    explain_table(client_of(url, key_file), table, at=at, as_json=as_json, out=sys.stdout)
    return None


_DRY_RUN = "Print whether a run would begin now, and what it would do. Nothing is changed."
_REWRITE_ALL = "Rewrite all files that the table has now, in as many runs as needed."


def trigger(
    table: Table,
    service: Service,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_DRY_RUN)] = False,
    rewrite: Annotated[bool, typer.Option("--rewrite-all", help=_REWRITE_ALL)] = False,
    end: Annotated[bool, typer.Option("--end-rewrite", help="Withdraw a rewrite of all files.")] = False,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Request a run of a service now.

    The run skips the trigger and the window of the policy. It never skips a block.
    """
    from lakewarden.service.commands.run import end_rewrite, rewrite_all, run_service  # noqa: PLC0415

    if dry_run + rewrite + end > 1:
        raise typer.BadParameter("use only one of them", param_hint="--dry-run, --rewrite-all, --end-rewrite")
    client = client_of(url, key_file)
    if end:
        end_rewrite(client, table, service, out=sys.stdout)
    elif rewrite:
        rewrite_all(client, table, service, as_json=as_json, out=sys.stdout)
    else:
        run_service(client, table, service, dry_run=dry_run, as_json=as_json, out=sys.stdout)


_DECISIONS = (
    Column("SINCE", "since"),
    Column("UNTIL", "until"),
    Column("SERVICE", "service"),
    Column("DECISION", "decision", Kind.STATE),
    Column("REASON", "reason"),
)


def decisions(
    table: Table,
    service: Annotated[str | None, typer.Option("--service", help="Decisions on this service.")] = None,
    limit: Limit = 100,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """List the past decisions on a table, newest first. `explain --at` prints those of one moment."""
    client = client_of(url, key_file)

    def page(**query: Any) -> Any:
        return about_table(client, table, lambda: client.decisions(table, **query))

    show_list(page, _DECISIONS, limit=limit, as_json=as_json, empty="no decisions recorded", service=service)


_ENTRIES = (
    Column("TIME", "time"),
    Column("ACTION", "action"),
    Column("STANDS FOR", "stands_for"),
    Column("STATE", "state"),
    Column("REQUESTED", "requested_at", Kind.AGO),
    Column("COMPLETED", "completed_at", Kind.AGO),
    Column("FILE GROUPS", "file_groups"),
    Column("BYTES", "bytes", Kind.SIZE),
    Column("RUN", "run"),
)


def timeline(
    table: Table,
    action: Annotated[str | None, typer.Option("--action", help="Instants of an action of the format.")] = None,
    pending: Annotated[bool | None, typer.Option(help="Instants that are not completed.")] = None,
    ours: Annotated[bool | None, typer.Option(help="Instants that a run of Lakewarden planned.")] = None,
    limit: Limit = 100,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """List the active instants of a table, newest first."""
    client = client_of(url, key_file)
    filters: Mapping[str, Any] = {"action": action, "pending": pending, "ours": ours}

    def page(**query: Any) -> Any:
        return about_table(client, table, lambda: client.timeline(table, **query))

    show_list(page, _ENTRIES, limit=limit, as_json=as_json, empty=none_of("instant", filters), **filters)


_SETTINGS = (
    Column("SERVICE", "service"),
    Column("SETTING", "name"),
    Column("VALUE", "value"),
    Column("SOURCE", "source"),
)


def policies(table: Table, url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """List the settings in force for a table, and where each comes from."""
    client = client_of(url, key_file)
    answer = about_table(client, table, lambda: client.policies(table))
    if as_json:
        print(as_written(answer))
        return
    groups = {"": answer["settings"], **answer["services"]}
    items = [
        {**setting, "service": service, "name": name, "source": _source(setting)}
        for service, settings in groups.items()
        for name, setting in settings.items()
    ]
    show_items(items, _SETTINGS, empty="no settings")


def _source(setting: Mapping[str, Any]) -> str:
    """Return the level of a setting, with its file and its line."""
    place = setting.get("place")
    return f"{setting['source']} ({place})" if place else str(setting["source"])
