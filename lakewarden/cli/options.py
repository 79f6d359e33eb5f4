"""The options that several commands have, and the client that they mean."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakewarden.client.transport import (
    DAEMON,
)
from lakewarden.planners.model.errors import PermanentError

if TYPE_CHECKING:
    from lakewarden.client import Client


KEY_VARIABLE = "LAKEWARDEN_KEY"
"""The environment variable with the API key of the command line."""

_CONFIG = "LAKEWARDEN_CONFIG"


def tables_that_begin(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the tables that begin so, for the completion of a shell. A daemon that does not answer has none."""
    from lakewarden.client import Client, ClientError  # noqa: PLC0415

    try:
        parameters = ctx.params
        url = parameters.get("url") or os.environ.get("LAKEWARDEN_URL") or DAEMON
        file = parameters.get("key_file") or os.environ.get("LAKEWARDEN_KEY_FILE")
        client = Client(url, key=key_of(None if file is None else Path(file)), timeout=1)
        return [table["id"] for table in client.tables(id=f"{incomplete}*", limit=100)["items"]]
    except (ClientError, PermanentError, ValueError):
        return []


Url = Annotated[str, typer.Option("--url", envvar="LAKEWARDEN_URL", help="The address of the daemon.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        envvar="LAKEWARDEN_KEY_FILE",
        help=f"A file with the API key for the daemon. Without it, ${KEY_VARIABLE} is the key.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Table = Annotated[str, typer.Argument(help="The id of the table.", autocompletion=tables_that_begin)]
Service = Annotated[str, typer.Argument(help="A service of the table, as in the configuration.")]
Run = Annotated[str, typer.Argument(help="The id of the run.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for other people.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Show at most this many items. 0 means all.")]
ConfigFile = Annotated[
    Path, typer.Option("--config", envvar=_CONFIG, help="The configuration file.", show_default="lakewarden.yaml")
]
CONFIG = Path("lakewarden.yaml")


def config_for(places: Iterable[str], config: Path | None) -> Path | None:
    """Return the configuration for places. A catalog is named in one: that of this folder, unless another is given."""
    named = any(place.startswith("catalog://") for place in places)
    return CONFIG if config is None and named and CONFIG.exists() else config


def key_of(file: Path | None) -> str | None:
    """Return the API key in a file, or else in the environment. None if there is none.

    Raises PermanentError if the file cannot be read, or if the key has other characters than those of a header.
    """
    from lakewarden.planners.storage.settings import Secret  # noqa: PLC0415

    key = os.environ.get(KEY_VARIABLE) or None if file is None else Secret(file=file).value()
    if key is not None and not (key.isascii() and key.isprintable()):
        raise PermanentError(f"{KEY_VARIABLE if file is None else file} has no API key: a key is one line of ASCII")
    return key


def client_of(url: str, key_file: Path | None) -> Client:
    """Return the client of a daemon. Raises PermanentError if the address or the key cannot be used."""
    from lakewarden.client import Client  # noqa: PLC0415

    key = key_of(key_file)
    try:
        return Client(url, key=key)
    except ValueError as wrong:
        raise PermanentError(str(wrong)) from wrong
