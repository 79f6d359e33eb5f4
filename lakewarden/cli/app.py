"""All commands, in the order of the help."""

from __future__ import annotations

from typing import Annotated

import typer

import lakewarden
from lakewarden.cli import daemon, here, protections, runs, table_words, tables
from lakewarden.cli.commands import HERE, TABLES, Sections
from lakewarden.cli.exit_codes import MEANINGS

_CODES = "\n".join(["\b", "Exit codes:", *(f"  {code:<4} {meaning}" for code, meaning in MEANINGS.items())])

app = typer.Typer(
    name="lakewarden",
    help=lakewarden.__doc__,
    epilog=_CODES,
    cls=Sections,
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        here.version()
        raise typer.Exit


@app.callback()
def _main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


here.register(app)
app.add_typer(daemon.app, name="keys", rich_help_panel=HERE)
app.add_typer(tables.app, name="tables", rich_help_panel=TABLES)
app.add_typer(runs.app, name="runs", rich_help_panel=TABLES)
table_words.register(app)
app.add_typer(protections.approvals, name="approvals", rich_help_panel=TABLES)
app.add_typer(protections.quarantine, name="quarantine", rich_help_panel=TABLES)
runs.register(app)
daemon.register(app)
