"""What a writer of a table must set beside Lakewarden, as JSON, and ready to paste for each engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import TextIO, assert_never

from pydantic import BaseModel

from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.ports import WriterEngine
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.services import SERVICES
from lakewarden.service.config.loading import load
from lakewarden.service.reporting.client import ask, suggested


class WriterOptionBody(BaseModel):
    """One option and why it must be set. A key with leading dashes is a flag of the command line."""

    key: str
    value: str
    why: str

    @property
    def is_flag(self) -> bool:
        """Whether it stands on the command line and not among the properties."""
        return self.key.startswith("--")


class WriterOptionsBody(BaseModel):
    """The options of one engine, those with the same reason beside each other.

    `worst_lock_hold_seconds` is null where no run of ours was measured yet: then waits for a lock are the least that is
    safe. `ours` are the services that the table has a policy for, `left_to_writer` the others.
    """

    table: str
    mode: Mode
    engine: WriterEngine
    worst_lock_hold_seconds: float | None
    options: list[WriterOptionBody]
    ours: list[str]
    left_to_writer: list[str]


def options_of(table: Table, *, engine: WriterEngine, url: str, held: timedelta | None) -> WriterOptionsBody:
    """Return the options of a table's writer. `url` is the API's address as writers reach it, `held` the longest time
    for which we were seen to hold the table's lock. Raises PermanentError where the table names no lock.
    """
    table_format = FORMATS[table.format]
    options = table_format.writer_options(
        table, engine=engine, hook_url=f"{url}/v1/hooks/{table.format}", worst_hold=held
    )
    return WriterOptionsBody(
        table=table.id,
        mode=table.mode,
        engine=engine,
        worst_lock_hold_seconds=None if held is None else held.total_seconds(),
        options=[WriterOptionBody(key=one.key, value=one.value, why=one.why) for one in options],
        ours=list(table.policies),
        left_to_writer=[
            service
            for service in table_format.services
            if service not in table.policies and not SERVICES[service].by_hand
        ],
    )


def print_writer_options(
    table: str, *, engine: WriterEngine, config: Path, url: str | None, as_json: bool, out: TextIO
) -> int:
    """Print the options of a table in the configuration, with waits as the running daemon has measured them.

    Raises PermanentError for a wrong configuration, a table that is not in it, or one that names no lock.
    """
    known = load(config)
    found = next((one for one in known.tables if one.id == table), None)
    if found is None:
        raise PermanentError(f"no table {table!r} is in {config}; {suggested(table, [one.id for one in known.tables])}")
    api = known.settings.api.url
    held, source = _measured(table, engine, url or api)
    hooks = known.settings.hooks.url(known.settings.api)
    body = options_of(found, engine=engine, url=hooks, held=held)
    held_longer = options_of(found, engine=engine, url=hooks, held=(held or timedelta(0)) + timedelta(days=1))
    waits = body.options != held_longer.options  # of a format with locks
    print(body.model_dump_json(indent=2) if as_json else written_out(body, source if waits else None), file=out)
    return 0


def _measured(table: str, engine: WriterEngine, url: str) -> tuple[timedelta | None, str]:
    """Return how long the lock was held at most, and who says so: the running daemon, where there is one."""
    try:
        answer = WriterOptionsBody.model_validate(ask(url, f"/v1/tables/{table}/writer-options?engine={engine}"))
    except LakewardenError:
        return None, f"no daemon answers for it at {url}: the waits for the lock are the least that is safe"
    if answer.worst_lock_hold_seconds is None:
        return None, f"the daemon at {url} has measured no run yet: the waits for the lock are the least that is safe"
    return timedelta(seconds=answer.worst_lock_hold_seconds), f"the waits for the lock are by what {url} has measured"


def written_out(body: WriterOptionsBody, source: str | None) -> str:
    """Return the options ready to paste: properties, or, for Flink, what goes into a table's WITH clause.

    `source` says where the waits for a lock come from, where there are any.
    A line that begins with `#` (`--` for Flink) is a comment; every other one that is not empty is an option.
    """
    comment = "--" if body.engine is WriterEngine.FLINK else "#"
    return "\n".join(f"{comment} {line}" if is_comment else line for is_comment, line in _lines(body, source))


def _lines(body: WriterOptionsBody, source: str | None) -> Iterator[tuple[bool, str]]:
    """Yield every line, and whether it is a comment."""
    yield True, f"What a {body.engine} writer of {body.table} sets beside Lakewarden."
    if source is not None:
        yield True, f"{source}."
    if body.mode is not Mode.ACT:
        yield True, f"CAREFUL: its mode is {body.mode}, so nobody runs the services that are switched off here."
    if body.ours:
        yield True, f"Lakewarden's, so that no job of yours runs them: {', '.join(body.ours)}."
    if body.left_to_writer:
        yield True, f"Left to the writer, for want of a policy: {', '.join(body.left_to_writer)}."
    settings = [one for one in body.options if not one.is_flag]
    for why, options in groupby(settings, key=lambda one: one.why):
        yield False, ""
        yield True, why
        for option in options:
            yield False, _option(option, body.engine, last=option is settings[-1])
    for flag in (one for one in body.options if one.is_flag):
        yield False, ""
        yield True, f"and on the command line: {flag.key}"


def _option(option: WriterOptionBody, engine: WriterEngine, *, last: bool) -> str:
    match engine:
        case WriterEngine.SPARK | WriterEngine.STREAMER:
            return f"{option.key}={option.value}"
        case WriterEngine.FLINK:
            return f"'{option.key}' = '{option.value}'" + ("" if last else ",")
        case _:
            assert_never(engine)
