"""The options of tables that their catalogs know: the lock that the properties of the writers name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.printable import printable
from lakewarden.planners.ports import Listing
from lakewarden.planners.storage import Storages
from lakewarden.planners.surveying.contents import ReadsWriterDefaults, WriterDefaults
from lakewarden.planners.surveying.registry import surveyors
from lakewarden.service.commands.report.places import catalogs_at, kind_of
from lakewarden.service.config.layers.templates import names_of

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
            remarks=tuple(said)[:_MOST_REMARKS],
        )
        for name, said in remarks.items()
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
    said = "; ".join(f"{tables} have {options}" for options, tables in found.most_common(5))
    return printable(
        f"the {format_name} tables name {len(found)} sets of options in their catalog, so none is written: {said}"
    )


def _named(places: Iterable[str]) -> Iterator[tuple[str, WriterDefaults]]:
    """Yield the format and the options of each table with such properties."""
    storages = Storages()
    for catalog in (one for place in places if kind_of(place) is not None for one in catalogs_at(place)):
        surveyor = surveyors()[catalog.format.name]
        if not isinstance(surveyor, ReadsWriterDefaults):
            continue
        try:
            listing = catalog.format.tables_in(
                catalog.name, catalog.settings, storages.of(f"catalog://{catalog.name}/any")
            )
        except LakewardenError:
            continue  # `init` has said so when it searched the place
        for identifier, properties in listing.properties.items():
            known = surveyor.options_of(properties)
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
