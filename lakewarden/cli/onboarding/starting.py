"""The commands of the first steps: discover, init, check-config and writer-options."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lakewarden.cli.commands import HERE, command
from lakewarden.cli.options import CONFIG, AsJson, ConfigFile, KeyFile, Table, key_of
from lakewarden.planners.model.errors import PermanentError

_PLACE = (
    "A path or a pattern (s3://lake/*/*), a catalog of --config (catalog://NAME), or the address of a catalog "
    "(thrift://HOST:9083, http://HOST:8181?warehouse=NAME, jdbc:postgresql://HOST/DATABASE?warehouse=FOLDER)."
)
_EXCLUDE = "Leave out what fits this pattern. It may be given often."
_WITH = "The configuration with catalogs and stores, if one is needed."


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "discover", section=HERE)(discover)
    command(app, "init", section=HERE)(init)
    command(app, "check-config", section=HERE)(check_config)
    command(app, "writer-options", section=HERE)(writer_options)


def discover(
    places: Annotated[list[str], typer.Argument(metavar="PLACE...", help=_PLACE)],
    as_json: AsJson = False,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help=_EXCLUDE)] = None,
    config: Annotated[Path | None, typer.Option("--config", help=_WITH)] = None,
) -> int:
    """Print the tables of a lake with their formats. It needs no daemon and changes nothing.

    The exit code is 2 if there is none.
    """
    from lakewarden.service.commands.starting.discovering import discovered, print_discovered  # noqa: PLC0415

    found = discovered(places, exclude=exclude or (), config=config)
    return print_discovered(found, as_json=as_json, out=sys.stdout, err=sys.stderr)


def init(
    places: Annotated[list[str], typer.Argument(metavar="PLACE...", help=_PLACE)],
    output: Annotated[
        Path | None, typer.Option("--output", help="Write to this new file. Without it the text is printed.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help=_EXCLUDE)] = None,
    defaults: Annotated[
        Path | None,
        typer.Option(
            "--writer-defaults",
            help="The file with the defaults of all writers, which names their lock. The default is where writers on "
            "this machine have it.",
        ),
    ] = None,
) -> None:
    """Print a first configuration for the tables of paths and catalogs. They are only observed.

    Of Hudi tables the newest clean is read, so that as many commits are kept as before.
    """
    from lakewarden.service.commands.starting.catalog_options import options_in_catalogs, over  # noqa: PLC0415
    from lakewarden.service.commands.starting.discovering import found_at, written_to  # noqa: PLC0415
    from lakewarden.service.commands.starting.first_file import first_file, known_options  # noqa: PLC0415
    from lakewarden.service.commands.starting.kept import kept_by_cleans  # noqa: PLC0415
    from lakewarden.service.commands.starting.sound_file import sound_file  # noqa: PLC0415

    found = {place: found_at(place, exclude=exclude or (), err=sys.stderr) for place in dict.fromkeys(places)}
    kept = kept_by_cleans([table for tables in found.values() for table in tables])
    known = over(options_in_catalogs(found, err=sys.stderr), known_options(defaults, os.environ))
    write = partial(first_file, found, exclude=exclude or (), kept=kept)
    text = sound_file(write, known, file=output or CONFIG)
    try:
        with written_to(output, sys.stdout) as file:
            file.write(text)
    except FileExistsError:
        raise PermanentError(f"{output} is there already, and is not replaced: name another file") from None


def check_config(
    file: Annotated[Path | None, typer.Argument(help="The configuration file. It counts before --config.")] = None,
    config: ConfigFile = CONFIG,
    connect: Annotated[
        bool,
        typer.Option("--connect", help="Try whether the store, catalogs, locks and tables that it names are reached."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Print every problem of a configuration, with its file, its line and its key. It changes nothing.

    The exit code is 2 if there is an error. With --connect it is 1 if something is not reached.
    """
    if connect:
        from lakewarden.service.commands.starting.connecting import check_and_connect  # noqa: PLC0415

        return check_and_connect(file or config, as_json=as_json, out=sys.stdout)
    from lakewarden.service.config.check import check_config as check  # noqa: PLC0415

    return check(file or config, as_json=as_json, out=sys.stdout)


def writer_options(
    table: Annotated[Table | None, typer.Argument(help="The id of the table.")] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            help="The engine of the writer: spark (the default), flink, or another one for its format. With --all, "
            "every engine is the default.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Write the options of all tables to files.")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="The folder for the files of --all.")] = None,
    config: ConfigFile = CONFIG,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar="LAKEWARDEN_URL",
            help="The address of the daemon. Default: as the configuration says. It is asked if there is no "
            "configuration here, or if that does not have the table.",
        ),
    ] = None,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> int:
    """Print the options for the writers of a table, or write those of all tables to files.

    With --all, the exit code is 1 if a table has no options. Its reason is printed.
    """
    if every:
        from lakewarden.service.commands.starting.every_writer import write_for_all  # noqa: PLC0415

        if table is not None or output is None or as_json:
            raise typer.BadParameter("it needs --output DIR, and neither a table nor --json", param_hint="--all")
        return write_for_all(config, output, engine=engine, out=sys.stdout)
    if table is None or output is not None:
        raise typer.BadParameter("name a table, or use --all with --output DIR", param_hint="TABLE")
    from lakewarden.service.commands.writer_options import print_writer_options  # noqa: PLC0415

    key = key_of(key_file)
    return print_writer_options(
        table, engine=engine or "spark", config=config, url=url, as_json=as_json, out=sys.stdout, key=key
    )
