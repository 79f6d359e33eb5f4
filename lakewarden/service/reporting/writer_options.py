"""The options that a writer of a table must set beside Lakewarden: as JSON, and ready to paste for each engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby
from typing import assert_never

from pydantic import BaseModel

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.ports import Syntax, TableFormat, WriterEngine
from lakewarden.planners.services import SERVICES


class WriterOptionBody(BaseModel):
    """One option and the reason for it. A key with leading dashes is a flag of the command line. `shared`: writers need
    it without Lakewarden, too, as long as several of them write. `optional`: it weakens a guarantee, so the owner of
    the writer decides.
    """

    key: str
    value: str
    why: str
    shared: bool = False
    optional: bool = False

    @property
    def is_flag(self) -> bool:
        """Whether it belongs on the command line and not among the properties."""
        return self.key.startswith("--")


class WriterOptionsBody(BaseModel):
    """The options of one engine. Options with the same reason stand together.

    `worst_lock_hold_seconds` is null if no run of ours was measured yet. Then waits for a lock have the shortest safe
    value. `ours` are the services with a policy on the table, and `left_to_writer` are the others.
    """

    table: str
    mode: Mode
    engine: str
    worst_lock_hold_seconds: float | None
    options: list[WriterOptionBody]
    ours: list[str]
    left_to_writer: list[str]


def engine_of(table: Table, table_format: TableFormat, name: str) -> WriterEngine:
    """Return the engine of this name. Raises PermanentError if it does not write tables of the format."""
    engines = {engine.name: engine for engine in table_format.writer_engines}
    if name not in engines:
        raise PermanentError(
            f"{name} writes no {table_format.name} tables, and {table.id} is one: ask for {' or '.join(engines)}"
        )
    return engines[name]


HOOK_KEY = "${LAKEWARDEN_HOOK_KEY}"
"""What stands for an API key in printed options. The key itself is kept nowhere."""


def options_of(
    table: Table,
    table_format: TableFormat,
    *,
    engine: WriterEngine,
    url: str,
    held: timedelta | None,
    with_key: bool = False,
) -> WriterOptionsBody:
    """Return the options of a writer of the table. `url` is the address of the API as writers reach it.

    `held` is the longest time for which Lakewarden was seen to hold the lock of the table. `with_key`: hooks need an
    API key. Raises PermanentError if the table names no lock.
    """
    options = table_format.writer_options(
        table, engine=engine, hook_url=f"{url}/v1/hooks/{table.format}", lock_held=held
    )
    return WriterOptionsBody(
        table=table.id,
        mode=table.mode,
        engine=engine.name,
        worst_lock_hold_seconds=None if held is None else held.total_seconds(),
        options=[
            *(WriterOptionBody.model_validate(option, from_attributes=True) for option in options),
            *(_key_option(table_format) if with_key else ()),
        ],
        ours=list(table.policies),
        left_to_writer=[
            service
            for service in table_format.services
            if service not in table.policies and not SERVICES[service].by_hand
        ],
    )


def _key_option(table_format: TableFormat) -> Iterator[WriterOptionBody]:
    hook = table_format.commit_hook
    if hook is not None and hook.key is not None:
        why = (
            "the callback needs an API key with the role hook in place of this reference: 'lakewarden keys create NAME"
            " --role hook' makes one. With another key the callback is refused, and no commit fails"
        )
        yield WriterOptionBody(key=hook.key.option, value=HOOK_KEY, why=why)


def written_out(body: WriterOptionsBody, source: str | None, *, syntax: Syntax) -> str:
    """Return the options ready to paste: as properties, or for the WITH clause of a table.

    `source` says where the waits for a lock come from, if there are any. A line that begins with `#` (`--` in a WITH
    clause) is a comment. Every other line that is not empty is an option.
    """
    comment = "--" if syntax is Syntax.WITH_CLAUSE else "#"
    return "\n".join(f"{comment} {line}" if is_comment else line for is_comment, line in _lines(body, source, syntax))


def _lines(body: WriterOptionsBody, source: str | None, syntax: Syntax) -> Iterator[tuple[bool, str]]:
    """Yield every line, and whether it is a comment."""
    yield True, f"{body.engine.capitalize()} writer options for {body.table}, beside Lakewarden."
    if source is not None:
        yield True, f"{source}."
    if body.mode is not Mode.ACT:
        yield (
            True,
            f"CAREFUL: its mode is {body.mode}, so Lakewarden runs none of the services that are switched off here.",
        )
    if body.ours:
        yield True, f"Services of Lakewarden, which no other job may run: {', '.join(body.ours)}."
    if body.left_to_writer:
        yield True, f"Left to the writer, because they have no policy: {', '.join(body.left_to_writer)}."
    settings = [option for option in body.options if not option.is_flag]
    last = next((option for option in reversed(settings) if not option.optional), None)
    for why, options in groupby(settings, key=lambda setting: setting.why):
        yield False, ""
        yield True, why
        for option in options:
            yield option.optional, _option(option, syntax, last=option is last)
    for flag in (option for option in body.options if option.is_flag):
        yield False, ""
        yield True, f"and on the command line: {flag.key}"


def _option(option: WriterOptionBody, syntax: Syntax, *, last: bool) -> str:
    match syntax:
        case Syntax.PROPERTIES:
            return f"{option.key}={option.value}"
        case Syntax.WITH_CLAUSE:
            return f"'{option.key}' = '{option.value}'" + ("" if last else ",")
        case _:
            assert_never(syntax)
