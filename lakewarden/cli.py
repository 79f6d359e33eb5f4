"""The command line. What a command needs is imported when it runs, so that `inspect` answers at once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import lakewarden
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.printable import printable

BAD_INPUT = 2
INTERRUPTED = 130

_BE_UTF_8 = "start this with PYTHONUTF8=1, or in a locale of UTF-8"
_DAEMON = "http://127.0.0.1:8080"
_DEMOS = ("hudi", "iceberg")  # demo.repertoire.REPERTOIRE, which a quick command does not wait for
_ENGINES = ("spark", "flink", "streamer")  # ports.WriterEngine, which a quick command does not wait for


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for input that cannot be worked with."""
    parsed = _parser().parse_args(arguments)
    if (names := sys.getfilesystemencoding()) != "utf-8":
        print(f"names of files are {names} here, and UTF-8 in tables: {_BE_UTF_8}", file=sys.stderr)
        return BAD_INPUT
    try:
        code = int(parsed.run(parsed))
        sys.stdout.flush()
    except LakewardenError as error:
        print(printable(str(error), lines=True), file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has gone
        return 0
    else:
        return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lakewarden", description=lakewarden.__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the daemon")
    _add_config(serve)
    serve.set_defaults(run=_serve)

    check = commands.add_parser("check-config", help="say everything that is wrong with a configuration")
    _add_config(check)
    check.add_argument("--json", action="store_true", help="for programs")
    check.set_defaults(run=_check_config)

    demo = commands.add_parser("demo", help="watch a real table, written by a live writer, being kept healthy")
    demo.add_argument("--format", choices=_DEMOS, default=_DEMOS[0], help=f"of which format (default: {_DEMOS[0]})")
    demo.add_argument("--seconds", type=_seconds, default=90, help="how long the writer writes (default: 90)")
    demo.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    demo.set_defaults(run=_demo)

    inspect = commands.add_parser("inspect", help="print a table's health, changing nothing")
    inspect.add_argument("path", help="where the table is, or catalog://<name>/<namespace>.<table>")
    inspect.add_argument("--json", action="store_true", help="for programs")
    inspect.add_argument("--config", type=Path, help="the configuration that tells of its catalog and its store")
    inspect.set_defaults(run=_inspect)

    explain = commands.add_parser("explain", help="say why the services of a table run or do not")
    explain.add_argument("table", help="the table's id")
    explain.add_argument("--url", default=_DAEMON, help=f"where the daemon is (default: {_DAEMON})")
    explain.add_argument("--json", action="store_true", help="for programs")
    explain.set_defaults(run=_explain)

    writer_options = commands.add_parser("writer-options", help="print what a table's writers must set")
    writer_options.add_argument("table", help="the table's id")
    writer_options.add_argument("--engine", choices=_ENGINES, default=_ENGINES[0], help="what writes to it")
    _add_config(writer_options)
    writer_options.add_argument("--url", help="where the daemon is (default: as the configuration says)")
    writer_options.add_argument("--json", action="store_true", help="for programs")
    writer_options.set_defaults(run=_writer_options)

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return parser


def _add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config",
        type=Path,
        default=os.environ.get("LAKEWARDEN_CONFIG", "lakewarden.yaml"),
        help="the configuration file (default: $LAKEWARDEN_CONFIG, else lakewarden.yaml)",
    )


def _seconds(text: str) -> int:
    seconds = int(text) if text.isdigit() else 0
    if not 1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 1 to 86400")
    return seconds


def _serve(parsed: argparse.Namespace) -> int:
    from lakewarden.service.process.last_resort import leave  # noqa: PLC0415
    from lakewarden.service.wiring import serve  # noqa: PLC0415

    leave(serve(Path(parsed.config)))


def _check_config(parsed: argparse.Namespace) -> int:
    from lakewarden.service.config.check import check_config  # noqa: PLC0415

    return check_config(Path(parsed.config), as_json=parsed.json, out=sys.stdout)


def _demo(parsed: argparse.Namespace) -> int:
    from lakewarden import demo  # noqa: PLC0415

    return demo.run(parsed.format, seconds=parsed.seconds, report=parsed.report)


def _inspect(parsed: argparse.Namespace) -> int:
    from lakewarden.service.reporting.inspect import inspect_path  # noqa: PLC0415

    return inspect_path(parsed.path, as_json=parsed.json, out=sys.stdout, err=sys.stderr, config=parsed.config)


def _explain(parsed: argparse.Namespace) -> int:
    from lakewarden.service.reporting.explain.command import explain_table  # noqa: PLC0415

    return explain_table(parsed.table, url=parsed.url, as_json=parsed.json, out=sys.stdout)


def _writer_options(parsed: argparse.Namespace) -> int:
    from lakewarden.planners.ports import WriterEngine  # noqa: PLC0415
    from lakewarden.service.reporting.writer_options import print_writer_options  # noqa: PLC0415

    return print_writer_options(
        parsed.table,
        engine=WriterEngine(parsed.engine),
        config=Path(parsed.config),
        url=parsed.url,
        as_json=parsed.json,
        out=sys.stdout,
    )


def _version(_parsed: argparse.Namespace) -> int:
    print(f"lakewarden {lakewarden.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
