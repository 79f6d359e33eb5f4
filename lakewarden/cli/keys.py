"""`lakewarden keys`: the API keys in the store of a configuration."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer

from lakewarden.cli.commands import command, group
from lakewarden.cli.options import CONFIG, AsJson, ConfigFile

app = group("Make, list and revoke API keys, in the store of the configuration.", listing=False)


def _lifetime(text: str) -> timedelta:
    from lakewarden.planners.settings import parse_duration  # noqa: PLC0415

    try:
        found = parse_duration(text)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from wrong
    if not timedelta(0) < found <= timedelta(days=3650):
        raise typer.BadParameter(f"{text!r} is no duration of at most 3650d: write one such as 90d")
    return found


@command(app, "create")
def create(
    name: Annotated[str, typer.Argument(help="The name of its person or program.")],
    role: Annotated[
        Literal["viewer", "hook", "trigger", "operator", "admin"],
        typer.Option("--role", help="What the key may do (docs/security.md)."),
    ],
    tables: Annotated[
        list[str] | None, typer.Option("--tables", help="A pattern for tables. May be repeated. Default: all tables.")
    ] = None,
    expires: Annotated[
        timedelta | None,
        typer.Option("--expires", parser=_lifetime, metavar="DURATION", help="How long the key counts, such as 90d."),
    ] = None,
    config: ConfigFile = CONFIG,
    as_json: AsJson = False,
) -> int:
    """Make a key, and print it once."""
    from lakewarden.service.commands.keys import create_key  # noqa: PLC0415
    from lakewarden.service.model.access import Role  # noqa: PLC0415

    return create_key(
        name, role=Role(role), tables=tables or (), lives=expires, config=config, as_json=as_json, out=sys.stdout
    )


@command(app, "list")
def list_all(config: ConfigFile = CONFIG, as_json: AsJson = False) -> int:
    """List the keys, without the keys themselves."""
    from lakewarden.service.commands.keys import list_keys  # noqa: PLC0415

    return list_keys(config=config, as_json=as_json, out=sys.stdout)


@command(app, "revoke")
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="The id of the key, as `lakewarden keys list` prints it.")],
    config: ConfigFile = CONFIG,
) -> int:
    """Revoke a key."""
    from lakewarden.service.commands.keys import revoke_key  # noqa: PLC0415

    return revoke_key(key, config=Path(config), out=sys.stdout)
