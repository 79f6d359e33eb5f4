"""The commands of this machine: the first steps, serve, doctor, report, backup, demo."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import lakewarden
from lakewarden.cli.commands import HERE, command, need_server
from lakewarden.cli.options import CONFIG, AsJson, ConfigFile, KeyFile, Limit, Table, Url, client_of, config_for, key_of
from lakewarden.client.transport import DAEMON
from lakewarden.demo.registry import DEMOS
from lakewarden.planners.model.errors import PermanentError

_PLACE = (
    "A path or a pattern (s3://lake/*/*), a catalog of --config (catalog://NAME), or the address of a catalog "
    "(thrift://HOST:9083, http://HOST:8181?warehouse=NAME, jdbc:postgresql://HOST/DATABASE?warehouse=FOLDER)."
)
_EXCLUDE = "Leave out what matches this pattern. May be repeated."


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "init", section=HERE)(init)
    command(app, "check-config", section=HERE)(check_config)
    command(app, "writer-options", section=HERE)(writer_options)
    command(app, "serve", section=HERE)(serve)
    command(app, "doctor", section=HERE)(doctor)
    command(app, "report", section=HERE)(report)
    command(app, "backup", section=HERE)(backup)
    command(app, "restore", section=HERE)(restore)
    command(app, "demo", section=HERE)(demo)
    command(app, "version", section=HERE)(version)


def init(
    places: Annotated[list[str], typer.Argument(metavar="PLACE...", help=_PLACE)],
    output: Annotated[
        Path | None, typer.Option("--output", help="Write to this new file instead of standard output.")
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
    need_server()
    from lakewarden.service.commands.init import first_file, known_options, sound_file  # noqa: PLC0415
    from lakewarden.service.commands.places import found_at, unopened  # noqa: PLC0415
    from lakewarden.service.commands.report import kept_by_cleans  # noqa: PLC0415

    by_place = {place: found_at(place, exclude=exclude or (), err=sys.stderr) for place in dict.fromkeys(places)}
    all_tables = [table for tables in by_place.values() for table in tables]
    kept = kept_by_cleans(all_tables)
    options = known_options(defaults, os.environ)
    write = partial(first_file, by_place, exclude=exclude or (), kept=kept, unopened=unopened(all_tables))
    text = sound_file(write, options, file=output or CONFIG)
    try:
        with nullcontext(sys.stdout) if output is None else output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise PermanentError(f"{output} already exists and is not overwritten: name another file") from None


def check_config(
    file: Annotated[Path | None, typer.Argument(help="The configuration file, instead of --config.")] = None,
    config: ConfigFile = CONFIG,
    as_json: AsJson = False,
) -> int:
    """Print every problem of a configuration, with its file, its line and its key. It changes nothing.

    The exit code is 2 if there is an error. `lakewarden doctor` tries what the file names.
    """
    from lakewarden.service.config.check import check_config as check  # noqa: PLC0415

    return check(file or config, as_json=as_json, out=sys.stdout)


def writer_options(
    table: Table,
    engine: Annotated[
        str,
        typer.Option("--engine", help="The engine of the writer: spark, flink, or another one for its format."),
    ] = "spark",
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
    """Print the options that the writers of a table must set, ready to paste."""
    from lakewarden.service.commands.writer_options import print_writer_options  # noqa: PLC0415

    key = key_of(key_file)
    return print_writer_options(table, engine=engine, config=config, url=url, as_json=as_json, out=sys.stdout, key=key)


def serve(config: ConfigFile = CONFIG) -> int:
    """Run the daemon."""
    from lakewarden.service.process.last_resort import leave  # noqa: PLC0415
    from lakewarden.service.process.signals import hang_up_reloads  # noqa: PLC0415

    hang_up_reloads()  # remembered already while the rest is loaded, which takes a while
    from lakewarden.service.wiring.serving import serve as serve_daemon  # noqa: PLC0415

    leave(serve_daemon(config))


def doctor(
    table: Annotated[
        str | None, typer.Argument(help="The id of a table: the daemon says what is proved about it.")
    ] = None,
    config: ConfigFile = CONFIG,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> int:
    """Check what works from here: store, JVM, jars, clock, ports, catalogs, locks and tables. It changes nothing.

    With a TABLE, print what the daemon has proved of it: lock, heartbeats, hook, that no other program serves it, and
    more. The exit code is 1 if something is wrong, or not proved of the TABLE.
    """
    need_server()
    if table is not None:
        from lakewarden.service.commands.doctor import prove_table  # noqa: PLC0415

        return prove_table(client_of(url, key_file), table, as_json=as_json, out=sys.stdout)
    from lakewarden.service.commands.doctor import doctor as check_all  # noqa: PLC0415

    return check_all(config, as_json=as_json, out=sys.stdout)


def report(
    places: Annotated[list[str], typer.Argument(metavar="PLACE...", help=_PLACE)],
    as_json: AsJson = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the report to this file, as one self-contained HTML page.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help=_EXCLUDE)] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="The configuration with catalogs and stores, if one is needed.")
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", help="The format of the tables, if their files do not show it.")
    ] = None,
    limit: Limit = 20,
) -> int:
    """Print what the tables of a lake need, worst first. It needs no daemon, uses its default settings, and changes
    nothing.

    The exit code is 2 if no table could be read.
    """
    need_server()
    from lakewarden.service.commands.report import ReportOptions  # noqa: PLC0415
    from lakewarden.service.commands.report_printing import print_report  # noqa: PLC0415

    options = ReportOptions(
        places=places,
        exclude=exclude or (),
        config=config_for(places, config),
        format_name=format_name,
        html=html,
        as_json=as_json,
        most=limit,
    )
    return print_report(options, out=sys.stdout, err=sys.stderr)


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write. It must not exist yet.")],
    config: ConfigFile = CONFIG,
) -> int:
    """Back up the store to a file, while the daemon runs. A PostgreSQL database is dumped by pg_dump."""
    from lakewarden.service.commands.backing_up import back_up  # noqa: PLC0415

    return back_up(file, config=config, out=sys.stdout)


def restore(
    file: Annotated[Path, typer.Argument(help="A file of `lakewarden backup`.")], config: ConfigFile = CONFIG
) -> int:
    """Replace the SQLite store by a backup. Stop every daemon first. The old store is kept beside it."""
    from lakewarden.service.commands.backing_up import restore as put_back  # noqa: PLC0415

    return put_back(file, config=config, out=sys.stdout)


def demo(
    format_name: Annotated[
        str | None,
        typer.Option("--format", help=f"The format of the table: {', '.join(DEMOS)}. Default: {next(iter(DEMOS))}."),
    ] = None,
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=86_400, help="How long the writer writes.")] = 90,
    report: Annotated[Path | None, typer.Option("--report", help="Write the figures to this file, as JSON.")] = None,
) -> int:
    """Run the services of a real table beside a live writer, and show them."""
    need_server()
    first, *_ = DEMOS
    if format_name is not None and format_name not in DEMOS:
        raise typer.BadParameter(f"{format_name!r} is none of {', '.join(DEMOS)}", param_hint="--format")
    from lakewarden.demo import scenario  # noqa: PLC0415

    return scenario.run(format_name or first, seconds, report)


def version() -> None:
    """Print the version."""
    print(f"lakewarden {lakewarden.__version__}")
