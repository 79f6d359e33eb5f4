"""What a lake tells of its writers, for a first configuration: the locks that they name, and what their cleans kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TextIO

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import KeepsCommits, Listing, ReadsWriterDefaults, WriterDefaults
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.service.commands.places import catalogs_at, kind_of
from lakewarden.service.config.layers.templates import names_of
from lakewarden.service.config.policies import first_policies

_TEMPLATES = ("{namespace}.{table}", "{namespace}/{table}", "{table}", "{path_hash}")
_MOST_REMARKS = 5


def options_in_catalogs(places: Iterable[str], *, err: TextIO) -> Mapping[str, WriterDefaults]:
    """Return by format the options that the properties of the tables in catalogs name, if all of them name the same.

    What differs from table to table only by its name is the same. If they name several, this is printed, and an
    operator has to choose. Raises PermanentError if a place is the address of no catalog that can be asked.
    """
    named: dict[str, Counter[str]] = {}
    remarks: dict[str, dict[str, None]] = {}
    for format_name, known in _named(places):
        remarks.setdefault(format_name, {}).update(dict.fromkeys(known.remarks))
        if known.options:
            named.setdefault(format_name, Counter())[json.dumps(known.options, sort_keys=True)] += 1
    for format_name, found in named.items():
        if len(found) > 1:
            print(_several(format_name, found), file=err)
    return {
        name: WriterDefaults(
            options=json.loads(next(iter(named[name]))) if len(named.get(name, ())) == 1 else {},
            remarks=tuple(texts)[:_MOST_REMARKS],
        )
        for name, texts in remarks.items()
    }


def over(first: Mapping[str, WriterDefaults], then: Mapping[str, WriterDefaults]) -> Mapping[str, WriterDefaults]:
    """Return the options of `first`, and those of `then` for formats without any. All remarks stay."""
    none = WriterDefaults()
    return {
        name: WriterDefaults(
            options=first.get(name, none).options or then.get(name, none).options,
            remarks=(*first.get(name, none).remarks, *then.get(name, none).remarks),
        )
        for name in {**first, **then}
    }


def _several(format_name: str, found: Counter[str]) -> str:
    sets = "; ".join(f"{tables} have {options}" for options, tables in found.most_common(5))
    return printable(
        f"the {format_name} tables name {len(found)} sets of options in their catalog, so none is written: {sets}"
    )


def _named(places: Iterable[str]) -> Iterator[tuple[str, WriterDefaults]]:
    """Yield the format and the options of each table with such properties."""
    storages = Storages()
    for catalog in (one for place in places if kind_of(place) is not None for one in catalogs_at(place)):
        if not isinstance(catalog.format, ReadsWriterDefaults):
            continue
        try:
            listing = catalog.format.tables_in(
                catalog.name, catalog.settings, storages.of(f"catalog://{catalog.name}/any")
            )
        except LakewardenError:
            continue  # `init` has said so when it searched the place
        for identifier, properties in listing.properties.items():
            known = catalog.format.options_of(properties)
            if known.options or known.remarks:
                options = _for_each(known.options, _names(identifier, listing))
                yield catalog.format.name, WriterDefaults(options=options, remarks=known.remarks)


def _names(identifier: str, listing: Listing) -> Mapping[str, str]:
    return names_of(identifier, listing.locations.get(identifier, ""), identifier)


def _for_each(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with templates in the place of the names of a table."""
    if isinstance(value, Mapping):
        return {key: _for_each(one, names) for key, one in value.items()}
    return next((one for one in _TEMPLATES if one.format(**names) == value), value)


_AT_ONCE = 8
_MOST_READ = 2000
"""So many tables are read. The first configuration of a larger lake says nothing of the others."""

_MOST_FAILURES = 8
"""After so many tables that could not be read, no other is read: each could wait for a store that is not reached."""


def kept_by_cleans(tables: Sequence[Table]) -> Mapping[str, int]:
    """Return by location how many commits the newest clean of a table kept, if it kept more than the default would.

    A table that cannot be read says nothing. The daemon will ask before its first clean.
    """
    able = [one for one in tables if isinstance(FORMATS[one.format], KeepsCommits) and not is_in_catalog(one.location)]
    read = able[:_MOST_READ]
    storages, failed = Storages(), list[str]()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        kept = list(threads.map(lambda table: _kept(table, storages, failed), read))
    return {table.location: commits for table, commits in zip(read, kept, strict=True) if commits is not None}


def _kept(table: Table, storages: Storages, failed: list[str]) -> int | None:
    """Return what the newest clean of a table kept. `failed` are the locations that could not be read so far."""
    if len(failed) >= _MOST_FAILURES:
        return None
    table_format = FORMATS[table.format]
    judged = replace(table, policies={Service.CLEAN: first_policies(table_format)[Service.CLEAN]})
    try:
        view = table_format.observe(judged, storages.of(table.location), None, now=datetime.now(UTC)).view
    except (LakewardenError, OSError, ValueError):
        failed.append(table.location)
        return None
    kept = view.kept_more.get(Service.CLEAN)
    return None if kept is None else kept.commits
