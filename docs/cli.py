"""The page of the commands, from the command line itself: `python -m docs.cli` writes `cli.md` anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from lakewarden.cli.app import app
from lakewarden.cli.exit_codes import MEANINGS

PAGE = Path(__file__).parent / "cli.md"

COMMON = ("--url", "--key-file", "--json", "--config")
"""Options of many commands, which the page explains once."""

_HEAD = """\
# The command line

<!-- Written by `python -m docs.cli` from the commands. Do not edit. -->

`lakewarden COMMAND --help` says the same as this page. `lakewarden --install-completion` completes commands, options
and the ids of tables.

    lakewarden tables --only blocked
    lakewarden explain sales.orders
    lakewarden trigger sales.orders compaction
    lakewarden runs --active

## Options of many commands

- `--config` (`LAKEWARDEN_CONFIG`): the configuration file. Without it `lakewarden.yaml` in this folder.
- `--url` (`LAKEWARDEN_URL`): the address of the daemon. Without it `http://127.0.0.1:8080`.
- `--key-file` (`LAKEWARDEN_KEY_FILE`): the file with the [API key](security.md). `LAKEWARDEN_KEY` has the key itself.
- `--json`: the bodies of [the API](api.md). All pages of a list are one: `{"items": [...], "next": CURSOR}`.

An option counts before a variable. If the connection breaks, a command is sent again for some seconds. A trigger
that is sent twice returns the active run. No redirect is followed and no proxy is used, so the key reaches no other
host. For HTTPS the authorities of the system are trusted, or those of `SSL_CERT_FILE`.

On a terminal, lists are tables. In a pipe each item is one line with tabs between its columns, below a line of titles,
and values are as the API sends them. Errors are one line on standard error.

    lakewarden tables --json | jq -r '.items[] | select(.paused != null) | .id'
    lakewarden runs --state FAILED --limit 1000 | cut -f 2 | sort | uniq -c

"""

_CLIENT = """\
## The same from Python

The client needs the standard library only, and is generated from [openapi.json](openapi.json). `pip install .` in a
clone brings it without Spark ([install.md](install.md)):

    from lakewarden.client import Client, ConflictError

    client = Client("http://127.0.0.1:8080", key=KEY)
    for table in client.each(client.tables, blocked=True):
        print(table["id"], table["services"])
    try:
        run = client.request_run("sales.orders", "compaction")
    except ConflictError as blocked:
        print(blocked.problem["detail"], blocked.problem["remedy"])

It has a method for each operation, with the name of its `operationId`. `each` reads all pages of a list.
Bodies are dictionaries with types (`lakewarden.client.bodies`). The errors are in `lakewarden.client.transport`.

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
    yield f"### {name}\n\n{said}\n\n"
    for word, one in below.items():
        alone = f" `{name}` alone does the same." if word == "list" else ""
        said = " ".join((one.help or "").split())
        yield f"{_usage(f'{name} {word}', one)}\n\n{said}{alone}\n\n{_parameters(one.params)}"


def _usage(name: str, command: Any) -> str:
    named = ((_named(one), one.required) for one in _arguments(command.params))
    return "    " + " ".join([name, *(word if required else f"[{word}]" for word, required in named), "[OPTIONS]"])


def _arguments(parameters: Sequence[Any]) -> list[Any]:
    return [one for one in parameters if one.param_type_name == "argument"]


def _parameters(parameters: Sequence[Any]) -> str:
    """Return what must be said of arguments and options: nothing of a table, and nothing of those of many commands."""
    own = [one for one in (*_arguments(parameters), *_options(parameters)) if not _known(one)]
    return "".join([*(f"- `{_named(one)}`: {_said(one)}\n" for one in own), "\n"]) if own else ""


def _known(parameter: Any) -> bool:
    return parameter.opts[-1] in COMMON or parameter.name in ("table", "service", "run")


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
