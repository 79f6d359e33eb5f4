"""`lakewarden writer-options`: it prints what writers set, with the waits that a running daemon has measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO, cast
from urllib.parse import urlsplit

from lakewarden.client import Client, ClientError, NotAllowedError
from lakewarden.planners.model.errors import LakewardenError, PermanentError, UnknownNameError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Syntax, WriterEngine
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import is_local
from lakewarden.service.commands.printing import about_table, suggested
from lakewarden.service.config.access import Authentication
from lakewarden.service.config.loading import Config, load
from lakewarden.service.config.settings import Configuration
from lakewarden.service.control.discovery import sources_of
from lakewarden.service.model.access import is_loopback
from lakewarden.service.reporting.writer_options import WriterOptionsBody, engine_of, options_of, written_out


def print_writer_options(
    table: str, *, engine: str, config: Path, url: str | None, as_json: bool, out: TextIO, key: str | None = None
) -> int:
    """Print the options of a table in the configuration, with waits as the running daemon has measured them.

    If there is no configuration here, or it does not have the table, the daemon at `url` is asked for all of it.
    Raises UnknownNameError if there is no such table. Raises PermanentError if the configuration is wrong, names no
    lock for the table, or if writers on other machines cannot reach the address of the hooks. Raises ClientError.
    """
    if url is not None and not config.exists():
        return _print_those_of_the_daemon(table, engine, _client(url, key), as_json=as_json, out=out)
    configuration = load(config)
    ids = list[str]()
    answer = None
    for entry in tables_in(configuration):
        ids.append(entry.id)
        if entry.id == table:
            answer = entry
            break
    if answer is None:
        if url is not None:
            with suppress(ClientError):  # it does not know the table either, or does not answer
                return _print_those_of_the_daemon(table, engine, _client(url, key), as_json=as_json, out=out)
        near = suggested(table, ids)
        raise UnknownNameError(f"no table {table!r} is in {config}; {near}")
    api = configuration.settings.api.url
    held, source = _measured(table, engine, url or api, key)
    table_format = FORMATS[answer.format]
    writer = engine_of(answer, table_format, engine)
    body = options_for_writers(configuration.settings, answer, writer, held=held)
    longer = (held or timedelta(0)) + timedelta(days=1)
    held_longer = options_for_writers(configuration.settings, answer, writer, held=longer)
    waits = body.options != held_longer.options  # only if the format has locks
    print(
        body.model_dump_json(indent=2)
        if as_json
        else written_out(body, source if waits else None, syntax=writer.syntax),
        file=out,
    )
    return 0


def _client(url: str, key: str | None) -> Client:
    try:
        return Client(url, key=key)
    except ValueError as wrong:
        raise PermanentError(str(wrong)) from wrong


def _print_those_of_the_daemon(table: str, engine: str, client: Client, *, as_json: bool, out: TextIO) -> int:
    """Print the options as the daemon says them."""
    any_engine = cast(Any, engine)  # it judges itself
    body = WriterOptionsBody.model_validate(
        about_table(client, table, lambda: client.writer_options(table, engine=any_engine))
    )
    syntaxes = {
        writer_engine.name: writer_engine.syntax
        for table_format in FORMATS.values()
        for writer_engine in table_format.writer_engines
    }
    source = f"the options, with their waits, are those of the daemon at {client.url}"
    syntax = syntaxes.get(body.engine, Syntax.PROPERTIES)
    print(body.model_dump_json(indent=2) if as_json else written_out(body, source, syntax=syntax), file=out)
    return 0


def tables_in(configuration: Config) -> Iterator[Table]:
    """Yield the tables of the file, then those that its patterns find now. What cannot be listed is left out."""
    yield from configuration.tables
    for source in sources_of(
        configuration.discover, Storages(configuration.settings.storage, roots=configuration.roots)
    ):
        with suppress(LakewardenError):
            yield from source.find().tables


def options_for_writers(
    settings: Configuration, table: Table, writer: WriterEngine, *, held: timedelta | None
) -> WriterOptionsBody:
    """Return the options of a table. Raises PermanentError if it names no lock, or if writers on other machines cannot
    reach the address of the hooks.
    """
    hooks = settings.api.url
    with_key = settings.access.authentication is Authentication.KEYS
    body = options_of(table, FORMATS[table.format], engine=writer, url=hooks, held=held, with_key=with_key)
    _require_reachable(body, table, hooks, settings)
    return body


def _require_reachable(body: WriterOptionsBody, table: Table, hooks: str, settings: Configuration) -> None:
    """Raise PermanentError if writers on other machines would announce their commits to themselves.

    The writers of a table at a local path may be on this machine. An address that is set is right for the writers.
    """
    if (
        settings.api.public_url is not None
        or is_local(table.location)
        or not is_loopback(urlsplit(hooks).hostname or "")
    ):
        return
    if any(hooks in option.value for option in body.options):
        raise PermanentError(
            f"the hooks of {table.id} are at {hooks}, and only writers on this machine reach that address: set "
            "api.public_url to the address at which the writers reach this daemon, and api.host to listen there. "
            f"If all writers are on this machine, set api.public_url: {hooks}"
        )


def _measured(table: str, engine: str, url: str, key: str | None) -> tuple[timedelta | None, str]:
    """Return the longest time that the lock was held, and the source of this value: the running daemon, if there is
    one.
    """
    try:
        answer = Client(url, key=key, timeout=5).writer_options(table, engine=cast(Any, engine))  # it judges itself
    except NotAllowedError as refused:
        remedy = "give an API key with --key-file, or in LAKEWARDEN_KEY" if refused.status == 401 else "use another key"
        return None, f"the waits for the lock are the shortest safe ones, because {refused}: {remedy}"
    except (ClientError, ValueError):
        return None, f"no daemon answers for it at {url}: the waits for the lock are the shortest safe ones"
    held = answer["worst_lock_hold_seconds"]
    if held is None:
        return None, f"the daemon at {url} has measured no run yet: the waits for the lock are the shortest safe ones"
    return timedelta(seconds=held), f"the daemon at {url} has measured the waits for the lock"
