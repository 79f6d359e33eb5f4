"""The words about a daemon as a whole: replicas, audit, config, reload and drain."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Annotated, Literal

import typer

from lakewarden.cli.commands import DAEMON as SECTION
from lakewarden.cli.commands import command, group
from lakewarden.cli.options import CONFIG, AsJson, ConfigFile, KeyFile, Limit, Url, client_of
from lakewarden.cli.terminal import Column, Kind, none_of, show_items, show_list, whole
from lakewarden.client.transport import DAEMON
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.printing import as_written


def register(app: typer.Typer) -> None:
    """Register the words."""
    command(app, "audit", section=SECTION)(audit)
    command(app, "config", section=SECTION)(config)
    command(app, "replicas", section=SECTION)(replicas)
    command(app, "reload", section=SECTION)(reload)
    command(app, "discovery", section=SECTION)(discovery)
    command(app, "drain", section=SECTION)(drain)


_ACTS = (
    Column("AT", "at", Kind.AGO),
    Column("WHO", "who"),
    Column("ACT", "kind"),
    Column("TABLE", "table"),
    Column("SERVICE", "service"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
)


def audit(
    table: Annotated[str | None, typer.Option("--table", help="Entries about this table.")] = None,
    limit: Limit = 100,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the audit log, newest first: what people and programs changed."""
    page = client_of(url, key_file).audit
    show_list(page, _ACTS, limit=limit, as_json=as_json, empty=none_of("audit record", {"table": table}), table=table)


def config(url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Print the configuration of the daemon, without secrets."""
    import yaml  # noqa: PLC0415

    answer = client_of(url, key_file).config()
    print(as_written(answer) if as_json else yaml.safe_dump(answer["configuration"], sort_keys=False).rstrip())


_REPLICAS = (
    Column("ID", "id"),
    Column("URL", "url"),
    Column("ALIVE", "alive"),
    Column("TABLES", "tables"),
    Column("ANSWERS", "here"),
)


def replicas(url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """List the replicas that share the tables. ANSWERS marks the replica that answered."""
    answer = client_of(url, key_file).replicas()
    if as_json:
        print(as_written(answer))
    else:
        show_items(answer["items"], _REPLICAS, empty="no replica has joined")


_SOURCES = (
    Column("SOURCE", "name"),
    Column("TABLES", "tables"),
    Column("REFUSED", "refused_tables"),
    Column("ANSWERED", "answered_at", Kind.AGO),
    Column("FAILURE", "failure", Kind.STATE),
)
_MOST_NAMED = 5
_REFUSED = (Column("SOURCE", "source"), Column("NOT SERVED", "name"), Column("REASON", "reason"))


def discovery(
    now: Annotated[bool, typer.Option("--now", help="List every catalog and pattern now, and exit.")] = False,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the catalogs and patterns that tables are discovered by: what was found, when, and what was refused."""
    client = client_of(url, key_file)
    if now:
        now_answer = client.discover_now()
        print(as_written(now_answer) if as_json else f"{now_answer['sources']} catalogs and patterns are listed now")
        return
    answer = whole(client.discovery, limit=0)
    if as_json:
        print(as_written(answer))
        return
    show_items(answer["items"], _SOURCES, empty="no table is found by a pattern or in a catalog")
    refused = [
        {**entry, "source": source["name"]}
        for source in answer["items"]
        for entry in (*source["refused"], *source["unlisted"])
    ]
    if refused:
        print()
        show_items(refused, _REFUSED, empty="")


def reload(url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Reload the configuration of the daemon. Runs go on, and a file with an error changes nothing."""
    answer = client_of(url, key_file).reload()
    if as_json:
        print(as_written(answer))
    elif answer["accepted"]:
        print(f"the configuration is in force: {answer['tables']} listed tables")
        if gone := answer["gone"]:
            some = ", ".join(gone[:_MOST_NAMED]) + (" and more" if len(gone) > _MOST_NAMED else "")
            print(printable(f"RELEASED: {len(gone)} entries are gone from the file, with their tables: {some}"))
        for key in answer["needs_restart"]:
            print(printable(f"{key} has changed, and is read only at startup: restart the daemon"))
    if not answer["accepted"]:
        problems = "\n".join(answer["problems"])
        raise PermanentError(f"the configuration is refused, and the last good one stays in force:\n{problems}")


def drain(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Stop the daemon, as SIGTERM does. It starts no more runs, and waits for active runs."""
    client = client_of(url, key_file)
    if not yes:
        if not sys.stdin.isatty():
            raise PermanentError("drain stops the daemon, and there is no terminal to confirm on: add --yes")
        print(printable(f"Stop the daemon at {client.url}? Write yes: "), end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != "yes":
            raise PermanentError("the daemon was not drained")
    answer = client.drain()
    print(as_written(answer) if as_json else printable(f"the daemon at {client.url} ends after its active runs"))


# `lakewarden keys`: the API keys in the store of a configuration.

app = group("Create, list and revoke API keys, in the store of the configuration.", listing=False)


def _lifetime(text: str) -> timedelta:
    from lakewarden.planners.settings import parse_duration  # noqa: PLC0415

    try:
        lifetime = parse_duration(text)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from wrong
    if not timedelta(0) < lifetime <= timedelta(days=3650):
        raise typer.BadParameter(f"{text!r} is not a duration of at most 3650d: write one such as 90d")
    return lifetime


@command(app, "create")
def create(
    name: Annotated[str, typer.Argument(help="The name of the person or program that gets the key.")],
    role: Annotated[
        Literal["viewer", "hook", "trigger", "operator", "admin"],
        typer.Option("--role", help="What the key may do (docs/security.md)."),
    ],
    tables: Annotated[
        list[str] | None, typer.Option("--tables", help="A pattern for tables. May be repeated. Default: all tables.")
    ] = None,
    expires: Annotated[
        timedelta | None,
        typer.Option("--expires", parser=_lifetime, metavar="DURATION", help="How long the key is valid, such as 90d."),
    ] = None,
    config: ConfigFile = CONFIG,
    as_json: AsJson = False,
) -> None:
    """Create a key, and print it once."""
    from lakewarden.service.commands.keys import create_key  # noqa: PLC0415
    from lakewarden.service.model.access import Role  # noqa: PLC0415

    create_key(
        name, role=Role(role), tables=tables or (), lives=expires, config=config, as_json=as_json, out=sys.stdout
    )


_KEYS = (
    Column("ID", "id"),
    Column("NAME", "name"),
    Column("ROLE", "role"),
    Column("TABLES", "tables"),
    Column("STATE", "state"),
    Column("EXPIRES_AT", "expires_at"),
    Column("SOURCE", "source"),
)


@command(app, "list")
def list_all(config: ConfigFile = CONFIG, as_json: AsJson = False) -> None:
    """List the keys, without the keys themselves."""
    from lakewarden.service.commands.keys import key_entries  # noqa: PLC0415

    entries = key_entries(config)
    if as_json:
        print(as_written(entries))
    else:
        show_items(entries, _KEYS, empty="there is no key yet: create one with 'lakewarden keys create'")


@command(app, "revoke")
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="The id of the key, as `lakewarden keys list` prints it.")],
    config: ConfigFile = CONFIG,
) -> None:
    """Revoke a key."""
    from lakewarden.service.commands.keys import revoke_key  # noqa: PLC0415

    revoke_key(key, config=config, out=sys.stdout)
