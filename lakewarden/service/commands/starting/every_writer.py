"""`lakewarden writer-options --all`: the options of the writers of every table, one file for each table and engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Syntax, WriterEngine
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.service.commands.writer_options import options_for_writers
from lakewarden.service.config.loading import Config, load
from lakewarden.service.control.sources import sources_of
from lakewarden.service.reporting.writer_options import written_out

_ENDING = {Syntax.PROPERTIES: "properties", Syntax.WITH_CLAUSE: "sql"}
_MOST_NAMED = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterFiles:
    """What was written, and why there are no options for some tables."""

    written: int
    refused: tuple[tuple[str, str], ...]


def write_for_all(config: Path, folder: Path, *, engine: str | None, out: TextIO) -> int:
    """Write one file for each table and engine, and print what has none. `engine` is the only one that is meant.

    Files of an earlier call are replaced. The waits for locks are the shortest safe ones: `writer-options TABLE` asks
    the daemon. Return 1 if a table has no options, for example because it names no lock.
    """
    known = load(config)
    folder.mkdir(parents=True, exist_ok=True)
    made = _write(known, folder, engine)
    print(printable(f"{made.written} files are in {folder}"), file=out)
    for table, why in made.refused[:_MOST_NAMED]:
        print(printable(f"no options for {table}: {why}"), file=out)
    if len(made.refused) > _MOST_NAMED:
        print(f"and {len(made.refused) - _MOST_NAMED} more tables without options", file=out)
    return 1 if made.refused else 0


def _write(known: Config, folder: Path, engine: str | None) -> WriterFiles:
    written, refused = 0, list[tuple[str, str]]()
    for table in _tables(known, refused):
        try:
            for writer in _engines(table, engine):
                body = options_for_writers(known.settings, table, writer, held=None)
                file = folder / f"{table.id}.{writer.name}.{_ENDING[writer.syntax]}"
                file.write_text(written_out(body, None, syntax=writer.syntax) + "\n", encoding="utf-8")
                written += 1
        except PermanentError as none:
            refused.append((table.id, str(none)))
    return WriterFiles(written=written, refused=tuple(refused))


def _tables(known: Config, refused: list[tuple[str, str]]) -> Iterator[Table]:
    """Yield the tables of the file, and those that its patterns find now. What cannot be listed is noted."""
    ids = set()
    for table in known.tables:
        ids.add(table.id)
        yield table
    for source in sources_of(known.discover, Storages(known.settings.storage, roots=known.roots)):
        try:
            found = source.find()
        except LakewardenError as error:
            refused.append((source.name, str(error)))
            continue
        refused += [*found.unlisted.items(), *found.refused.items()]
        yield from (table for table in found.tables if table.id not in ids)
        ids.update(table.id for table in found.tables)


def _engines(table: Table, only: str | None) -> tuple[WriterEngine, ...]:
    """Return the engines that write tables of the format. If `only` is none of them, its writers are of the first."""
    engines = FORMATS[table.format].writer_engines
    return engines if only is None else tuple(one for one in engines if one.name == only) or engines[:1]
