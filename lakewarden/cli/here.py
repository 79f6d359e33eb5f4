"""The commands of this machine that need a table or a daemon, such as serve, inspect and report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import lakewarden
from lakewarden.cli.commands import HERE, command
from lakewarden.cli.options import CONFIG, AsJson, ConfigFile, KeyFile, Limit, Url, client_of
from lakewarden.client.transport import DAEMON
from lakewarden.demo.registry import DEMOS
from lakewarden.planners.model.errors import PermanentError


def register(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "serve", section=HERE)(serve)
    command(app, "doctor", section=HERE)(doctor)
    command(app, "inspect", section=HERE)(inspect)
    command(app, "report", section=HERE)(report)
    command(app, "backup", section=HERE)(backup)
    command(app, "restore", section=HERE)(restore)
    command(app, "demo", section=HERE)(demo)
    command(app, "version", section=HERE)(version)


def serve(config: ConfigFile = CONFIG) -> int:
    """Run the daemon."""
    from lakewarden.service.process.last_resort import leave  # noqa: PLC0415
    from lakewarden.service.process.signals import hang_up_reloads  # noqa: PLC0415

    hang_up_reloads()  # remembered already while the rest is loaded, which takes a while
    from lakewarden.service.wiring.serving import serve as serve_daemon  # noqa: PLC0415

    leave(serve_daemon(config))


def doctor(
    table: Annotated[
        str | None, typer.Argument(help="The id of a table: the daemon says what is proved of it.")
    ] = None,
    config: ConfigFile = CONFIG,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> int:
    """Check what works from here: store, JVM, jars, clock, ports, catalogs, locks and tables. It changes nothing.

    With a TABLE, print what the daemon has proved of it: lock, heartbeats, hook, that no other program serves it, and
    more. The exit code is 1 if a check has failed, or is not proved.
    """
    if table is not None:
        from lakewarden.service.commands.doctor.table import prove_table  # noqa: PLC0415

        return prove_table(client_of(url, key_file), table, as_json=as_json, out=sys.stdout)
    from lakewarden.service.commands.doctor.doctor import doctor as check_all  # noqa: PLC0415

    return check_all(config, as_json=as_json, out=sys.stdout)


def inspect(
    path: Annotated[str, typer.Argument(help="The location of the table, or catalog://NAME/NAMESPACE.TABLE.")],
    as_json: AsJson = False,
    as_svg: Annotated[bool, typer.Option("--svg", help="Print a picture of the timeline.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help="The configuration with its catalog and its store.")
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", help="The format of the table, if its files do not tell it.")
    ] = None,
) -> int:
    """Print the state of a table, without changing it."""
    from lakewarden.service.reporting.inspect import inspect_path  # noqa: PLC0415

    if as_json and as_svg:
        raise PermanentError("say --json or --svg, and not both")
    return inspect_path(
        path, as_json=as_json, as_svg=as_svg, out=sys.stdout, err=sys.stderr, config=config, format_name=format_name
    )


def report(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PLACE...",
            help="A path or a pattern (s3://lake/*/*), a catalog of --config (catalog://NAME), or the address of a "
            "catalog (thrift://HOST:9083, http://HOST:8181?warehouse=NAME).",
        ),
    ],
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write one page that loads nothing to this file.")] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", help="Leave out what fits this pattern. It may be given often.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="The configuration with catalogs and stores, if one is needed.")
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", help="The format of the tables, if their files do not tell it.")
    ] = None,
    limit: Limit = 20,
    at_once: Annotated[int, typer.Option("--at-once", min=1, max=64, help="Tables that are read together.")] = 4,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="The seconds that one table may take.")] = 120,
) -> int:
    """Print what the tables of a lake would gain, the worst first. It needs no daemon and changes nothing.

    The exit code is 2 if no table could be read.
    """
    from lakewarden.service.commands.report.report import ReportOptions, print_report  # noqa: PLC0415
    from lakewarden.service.commands.report.workers import SurveyLimits  # noqa: PLC0415

    options = ReportOptions(
        places=places,
        exclude=exclude or (),
        config=config,
        format_name=format_name,
        html=html,
        as_json=as_json,
        most=limit,
        limits=SurveyLimits(at_once=at_once, seconds=timeout),
    )
    return print_report(options, out=sys.stdout, err=sys.stderr)


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write. It must not be there yet.")],
    config: ConfigFile = CONFIG,
) -> int:
    """Write the store to a file, while the daemon runs. A PostgreSQL database is written by pg_dump."""
    from lakewarden.service.commands.backing_up import back_up  # noqa: PLC0415

    return back_up(file, config=config, out=sys.stdout)


def restore(
    file: Annotated[Path, typer.Argument(help="A file of `lakewarden backup`.")], config: ConfigFile = CONFIG
) -> int:
    """Put a backup in the place of the SQLite store. No daemon may run. What was there before is kept beside it."""
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
    from lakewarden import demo as demo_room  # noqa: PLC0415

    first, *_ = DEMOS
    if format_name is not None and format_name not in DEMOS:
        raise typer.BadParameter(f"{format_name!r} is none of {', '.join(DEMOS)}", param_hint="--format")
    return demo_room.run(format_name or first, seconds=seconds, report=report)


def version() -> None:
    """Print the version."""
    print(f"lakewarden {lakewarden.__version__}")
