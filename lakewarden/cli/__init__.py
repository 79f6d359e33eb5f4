"""The command line. Each command imports its modules when it runs, so that `--help` answers at once."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from lakewarden.cli.exit_codes import Code

_BE_UTF_8 = "start this with PYTHONUTF8=1, or in a UTF-8 locale"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, one of `Code`."""
    if (names := sys.getfilesystemencoding()) != "utf-8":
        print(f"file names are {names} here, but UTF-8 in tables: {_BE_UTF_8}", file=sys.stderr)
        return Code.USAGE
    if any(not _is_utf_8(argument) for argument in (sys.argv[1:] if arguments is None else arguments)):
        print("an argument is not UTF-8: ids and paths of tables are", file=sys.stderr)
        return Code.USAGE
    if sys.stdout is None:  # it was closed by the shell
        print(
            "the standard output is closed, so nothing can be printed: open it, or send it to /dev/null",
            file=sys.stderr,
        )
        return Code.USAGE
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may have another encoding than the names
    try:
        return _ended(arguments)
    except KeyboardInterrupt:  # while modules were imported
        return Code.INTERRUPTED


def _ended(arguments: Sequence[str] | None) -> int:
    """Run one command and return its exit code."""
    from lakewarden.cli.app import app  # noqa: PLC0415

    try:
        app(arguments, prog_name="lakewarden")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else Code.DONE
    return Code.DONE


def _is_utf_8(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True
