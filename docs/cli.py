"""The page of the commands, from the command line itself: `python -m docs.cli` writes `cli.md` anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from lakewarden.cli.app import app
from lakewarden.cli.codes import MEANINGS

PAGE = Path(__file__).parent / "cli.md"

_HEAD = """\
# The command line

<!-- Written by `python -m docs.cli` from the commands. Do not edit. -->

`lakewarden COMMAND --help` says the same as this page. `lakewarden --install-completion` completes commands, options
and the ids of tables in bash, zsh, fish and PowerShell.

    lakewarden tables --only blocked
    lakewarden explain sales.orders
    lakewarden trigger sales.orders compaction
    lakewarden runs --active --watch
    lakewarden top

## The daemon that is asked

`--url` or `LAKEWARDEN_URL` is the address of the daemon, without either `http://127.0.0.1:8080`. If the daemon asks for
keys ([security.md](security.md)), the API key is in the file of `--key-file` or `LAKEWARDEN_KEY_FILE`, or in
`LAKEWARDEN_KEY`. An option counts before a variable, and a file before `LAKEWARDEN_KEY`.

If the connection breaks before the answer to a command, the command line sends it again, for some seconds. A trigger
that is sent twice returns the active run.

The command line follows no redirect and uses no proxy, so the key reaches no other host. For HTTPS it trusts the
authorities of the system, or those of `SSL_CERT_FILE`.

## What is printed

On a terminal, lists are tables. If the terminal has fewer than 60 columns, each item is a block of lines. In a pipe
each item is one line with tabs between its columns, below a line of titles. Values are then as the API sends them:
times in RFC 3339, sizes in bytes. Control characters in names are escaped.

`--json` prints the bodies of the API ([rest.md](rest.md)) with the same values. All pages of a list are read, up to
`--limit` items, and printed as one page: `{"items": [...], "next": CURSOR}`. Errors are one line on standard error.

    lakewarden tables --json | jq -r '.items[] | select(.paused != null) | .id'
    lakewarden runs --state FAILED --limit 1000 | cut -f 2 | sort | uniq -c

"""

_CLIENT = """\
## The same from Python

The command line uses a client that is generated from [openapi.json](openapi.json). It needs the standard library only:

    from lakewarden.client import Client, ConflictError

    client = Client("http://127.0.0.1:8080", key=KEY)
    for table in client.each_of_tables(blocked=True):
        print(table["id"], table["services"])
    try:
        run = client.request_run("sales.orders", "compaction")
    except ConflictError as blocked:
        print(blocked.problem["detail"], blocked.problem["remedy"])

The client has a method for each operation, with the name of its `operationId`. A method that answers with a page has a
second one, `each_of_...`, that reads all pages. Bodies are dictionaries with types (`lakewarden.client.bodies`). If an
answer does not have the fields and the types of its body, the error is `StrangeError`. Fields that the client does not
know stay in the dictionary. The other errors are in `lakewarden.client.errors`.

"""


def text() -> str:
    """Return the page."""
    root: Any = typer.main.get_command(app)
    codes = "\n".join(f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items())
    parts = [_HEAD, f"## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n\n", _CLIENT, "## Commands\n\n"]
    for name, command in root.commands.items():
        parts += _command(f"lakewarden {name}", command)
    return "".join(parts).rstrip() + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    below = getattr(command, "commands", None)
    said = " ".join((command.help or "").split())
    if below is None:
        yield f"### {name}\n\n{_usage(name, command)}\n\n{said}\n\n{_parameters(command.params)}"
        return
    alone = f" `{name}` alone is `{name} list`." if "list" in below else ""
    yield f"### {name}\n\n{said}{alone}\n\n"
    for word, one in below.items():
        yield from _command(f"{name} {word}", one)


def _usage(name: str, command: Any) -> str:
    named = ((_named(one), one.required) for one in _arguments(command.params))
    return "    " + " ".join([name, *(word if required else f"[{word}]" for word, required in named), "[OPTIONS]"])


def _arguments(parameters: Sequence[Any]) -> list[Any]:
    return [one for one in parameters if one.param_type_name == "argument"]


def _parameters(parameters: Sequence[Any]) -> str:
    rows = [f"| `{_named(one)}` | {_said(one)} |\n" for one in (*_arguments(parameters), *_options(parameters))]
    return "".join(["| | |\n|---|---|\n", *rows, "\n"]) if rows else ""


def _options(parameters: Sequence[Any]) -> list[Any]:
    return [one for one in parameters if one.param_type_name == "option"]


def _named(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return parameter.name.upper() if parameter.metavar is None else str(parameter.metavar)
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _said(parameter: Any) -> str:
    parts = [(parameter.help or "").replace("|", "\\|")]
    if parameter.required and parameter.param_type_name == "option":
        parts.append("Required.")
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    if default not in (None, False, (), []) and parameter.param_type_name == "option":
        parts.append(f"Default: `{default}`.")
    if parameter.envvar:
        parts.append(f"Variable: `{parameter.envvar}`.")
    return " ".join(parts)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
