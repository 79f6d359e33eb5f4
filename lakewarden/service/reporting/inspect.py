"""`lakewarden inspect`: the state of one table, as text or as JSON. The table need not be registered."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pydantic import ValidationError
from rich.console import Console

from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.printable import printable, printable_values
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Storage, TableFormat
from lakewarden.planners.registry import FORMATS, RECOGNISED
from lakewarden.planners.storage import Storages, canonical_location
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.reporting.inspect_report import report
from lakewarden.service.reporting.inspect_text import rendered
from lakewarden.service.reporting.picture.axis import fitting
from lakewarden.service.reporting.picture.bars import bars
from lakewarden.service.reporting.picture.svg import STYLE, drawn
from lakewarden.service.reporting.terminal import ScreenPart

if TYPE_CHECKING:
    from lakewarden.service.config.layers.patterns import ConfiguredCatalog
    from lakewarden.service.config.loading import Config

_FAILED = 2
_IN_A_PIPE = 1000
"""So many columns, so that no line breaks."""


def inspect_path(
    path: str | os.PathLike[str],
    *,
    as_json: bool,
    as_svg: bool = False,
    out: TextIO,
    err: TextIO,
    config: Path | None = None,
    format_name: str | None = None,
    clock: Clock | None = None,
) -> int:
    """Print the state of the table at `path` and return the exit code.

    `config` says how stores and catalogs are reached. Without it stores are reached as the environment says, and
    catalogs are not. `as_svg` prints the picture of the timeline instead. `format_name` names the format of a table
    without metadata. The code is 0 if everything was read. It is 2 if a part of the metadata could not be read, or if
    there is no table. Then one line on `err` says so, and the rest is printed.
    """
    now = (clock or SystemClock()).now()
    text = os.fspath(path)
    try:
        location = canonical_location(text if ":/" in text else os.path.abspath(text))  # noqa: PTH100 - may be a URI
        loaded = None if config is None else _loaded(config)
        storage = Storages(() if loaded is None else loaded.settings.storage).of(location)
        asked = _asked_for(format_name)
        table_format, table = _recognised(location, storage, {} if loaded is None else loaded.catalogs, asked)
        view = table_format.observe(table, storage, None, now=now).view
        if not table_format.notes_are_facts:  # they speak of policies, and here are none
            view = replace(view, notes={})
    except LakewardenError as error:
        _say(err, str(error))
        return _FAILED
    if as_svg:
        print(_picture(view, now), file=out)
    elif as_json:
        print(json.dumps(printable_values(report(view, table_format.name), lines=False), indent=2), file=out)
    else:
        Console(file=out, highlight=False, width=None if out.isatty() else _IN_A_PIPE).print(
            ScreenPart(rendered(view, now))
        )
    if view.faults:
        _say(err, f"a part of the metadata cannot be read: {'; '.join(view.faults)}")
        return _FAILED
    return 0


def _picture(view: TableView, now: datetime) -> str:
    found = bars(view.timeline, ())
    return drawn(found, fitting(found, now=now), now=now, style=STYLE)


def _loaded(config: Path) -> Config:
    from lakewarden.service.config.loading import load  # noqa: PLC0415 - most tables do not need it

    return load(config)


def _asked_for(format_name: str | None) -> Iterable[TableFormat]:
    """Return the format of this name; without one all with metadata by which their tables are recognised."""
    if format_name is None:
        return RECOGNISED.values()
    if format_name not in FORMATS:
        raise PermanentError(f"{format_name!r} is no format: it is one of {', '.join(FORMATS)}")
    return [FORMATS[format_name]]


def _recognised(
    location: str, storage: Storage, catalogs: Mapping[str, ConfiguredCatalog], asked: Iterable[TableFormat]
) -> tuple[TableFormat, Table]:
    """Return the one of the formats `asked` that knows the table at a location, and the table.

    Raises PermanentError if none does.
    """
    if is_in_catalog(location):
        name, _ = named_in_catalog(location)
        catalog = catalogs.get(name)
        if catalog is None:
            raise PermanentError(f"there is no catalog {name!r}: name a configuration that has it, with --config")
        return catalog.format, replace(_with_every_service(catalog.format, location), catalog=catalog.settings)
    refusals = []
    for table_format in (one.thorough for one in asked):
        table = _with_every_service(table_format, location)
        try:
            table_format.token(table, storage)
        except PermanentError as refusal:
            refusals.append(str(refusal))
        else:
            return table_format, table
    hint = "" if len(refusals) < len(RECOGNISED) else "; if it is a folder of data files, say --format directory"
    raise PermanentError("; ".join(refusals) + hint)


def _with_every_service(table_format: TableFormat, location: str) -> Table:
    """Return the table with a policy for each service that needs no settings. Formats read what the policies need."""
    policies = {}
    for service, options in table_format.services.items():
        with suppress(ValidationError):
            policies[service] = Policy(trigger=NumCommits(at_least=1), options=options())
    return Table(id=TableId(location), format=table_format.name, location=location, policies=policies)


def _say(err: TextIO, message: str) -> None:
    print("lakewarden inspect:", printable(" ".join(message.split())), file=err)
