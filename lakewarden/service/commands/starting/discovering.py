"""`lakewarden discover`: the tables of a place, with their formats. Nothing is read of them but their folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.storage import Storages
from lakewarden.service.commands.report.lines import UnreadLine
from lakewarden.service.commands.report.places import SearchSettings, tables_of
from lakewarden.service.config.loading import load


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovered:
    """The tables of some places, each once, and what could not be searched."""

    tables: tuple[Table, ...]
    unread: tuple[UnreadLine, ...]


def discovered(places: Sequence[str], *, exclude: Sequence[str] = (), config: Path | None = None) -> Discovered:
    """Return the tables of the places. `config` has the catalogs and the stores.

    Raises PermanentError if a place means nothing, and TemporaryError if it does not answer.
    """
    known = None if config is None else load(config)
    storages = Storages() if known is None else Storages(known.settings.storage, roots=known.roots)
    settings = SearchSettings(storages=storages, catalogs={} if known is None else known.catalogs, exclude=exclude)
    tables: dict[str, Table] = {}
    unread: dict[UnreadLine, None] = {}
    for place in places:
        for found in tables_of(place, settings):
            if isinstance(found, Table):
                tables.setdefault(found.location, found)
            else:
                unread[found] = None
    return Discovered(tables=tuple(tables.values()), unread=tuple(unread))


def found_at(place: str, *, exclude: Sequence[str] = (), err: TextIO) -> tuple[Table, ...]:
    """Return the tables of a place, and print what could not be searched.

    Raises TemporaryError if nothing of the place could be searched, as when a catalog does not answer.
    """
    found = discovered([place], exclude=exclude)
    if found.unread and not found.tables:
        raise TemporaryError("\n".join(_not_searched(found.unread)))
    for line in _not_searched(found.unread):
        print(line, file=err)
    return found.tables


def print_discovered(found: Discovered, *, as_json: bool, out: TextIO, err: TextIO) -> int:
    """Print the tables, one a line. Return 2 if there is none."""
    if as_json:
        tables = [{"location": one.location, "format": one.format} for one in found.tables]
        unread = [{"location": one.location, "reason": one.reason} for one in found.unread]
        print(json.dumps({"tables": tables, "unread": unread}, indent=2), file=out)
    else:
        width = max((len(one.format) for one in found.tables), default=0)
        for one in sorted(found.tables, key=lambda table: table.location):
            print(f"{one.format:<{width}}  {printable(one.location)}", file=out)
        for line in _not_searched(found.unread):
            print(line, file=err)
        places = len({one.location for one in found.unread})
        print(printable(f"{len(found.tables)} tables, {places} places were not searched"), file=err)
    return 0 if found.tables else 2


def _not_searched(unread: Sequence[UnreadLine]) -> list[str]:
    """Return a line for each place. A catalog is asked for the tables of each format, and fails for all of them."""
    return list(dict.fromkeys(printable(f"not searched: {one.location}: {one.reason}") for one in unread))


def written_to(file: Path | None, out: TextIO) -> AbstractContextManager[TextIO]:
    """Return where a text goes: to a new file, or to the output. Raises FileExistsError if the file is there."""
    return nullcontext(out) if file is None else file.open("x", encoding="utf-8")
