"""`lakewarden adopt`: tables are taken over in waves, and given back."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakewarden.cli.commands import DAEMON as SECTION
from lakewarden.cli.commands import command
from lakewarden.cli.options import AsJson, KeyFile, Url, client_of
from lakewarden.cli.terminal.showing import Column, Kind, show_items
from lakewarden.client.transport import DAEMON
from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.commands.printing import as_written

_COLUMNS = (
    Column("WAVE", "wave"),
    Column("TABLE", "table"),
    Column("PHASE", "phase", Kind.STATE),
    Column("SINCE", "since", Kind.AGO),
    Column("MODE", "mode"),
    Column("WAITS FOR", lambda one: one["waits_for"] or one["setback"]),
)


def register(app: typer.Typer) -> None:
    """Register the word."""
    command(app, "adopt", section=SECTION)(adopt)


def adopt(
    tables: Annotated[
        str | None, typer.Argument(help="A table, or a pattern of ids. Without it, list adoptions.")
    ] = None,
    waves: Annotated[
        str | None,
        typer.Option("--waves", help="The percentages of the tables after each wave but the last one: 5,25,50."),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Give the tables back, and print what writers set back.")
    ] = False,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Take tables over: each is proved, then planned, then acted on, in waves with a gate between them.

    The daemon goes on by itself. Without TABLES, or with --json, the adoptions and what they wait for are shown.
    """
    client = client_of(url, key_file)
    if tables is None:
        if undo or waves is not None:
            raise PermanentError("name the tables that are meant, for example 'sales.*'")
        found = client.adoptions()
        if as_json:
            print(as_written(found))
        else:
            show_items(found["items"], _COLUMNS, empty="no table was adopted")
        return
    from lakewarden.service.commands.adopting import give_back, take_over  # noqa: PLC0415

    if undo:
        give_back(client, tables, as_json=as_json, out=sys.stdout)
        return
    answer = take_over(client, tables, waves=_percents(waves), as_json=as_json, out=sys.stdout)
    if not as_json:
        show_items(answer["items"], _COLUMNS, empty="no table was adopted")


def _percents(text: str | None) -> list[float]:
    try:
        return [float(one) for one in text.split(",")] if text else []
    except ValueError:
        raise PermanentError(f"--waves {text} has no percentages: write 5,25,50") from None
