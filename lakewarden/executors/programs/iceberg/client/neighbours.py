"""Other tables of the catalog that keep files in a table's folder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import structlog

from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling
from lakewarden.planners.formats.iceberg.options.table_options import PLACES
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.step import Step
from lakewarden.planners.storage.locations import named_in_catalog

log = structlog.get_logger(__name__)

_Shown = TypeVar("_Shown")
_MOST = 1000
"""So many tables of a catalog are asked, first those in the namespace of the table."""


def neighbours(table: OpenTable, metadata: TableMetadata) -> Mapping[str, str]:
    """Return the folders below a table's folder that other tables of its catalog name as theirs, by the path from
    there, each with the name of its table. What the catalog refuses to show is left out.

    Raises PermanentError if another table lies in the very folder of this one, and TemporaryError.
    """
    if table.catalog is None:
        return {}
    spelled, found = Spelling(), dict[str, str]()
    home = f"{spelled.folder(metadata.location)}/"
    _, own = named_in_catalog(table.assignment.location)
    for identifier in itertools.islice(_identifiers(table, own), _MOST):
        name = str(identifier.toString())
        for folder in [] if name == own else _shown(partial(_folders, table.catalog, identifier)):
            place = f"{spelled.folder(folder)}/"
            if place == home:
                raise PermanentError(
                    f"the table {name} of the same catalog keeps its files in {metadata.location}, too: no file there "
                    "is an orphan of one table alone. Let each table have a folder of its own"
                )
            if place.startswith(home):
                found[place.removeprefix(home).rstrip("/")] = f"files of the table {name}"
    return found


def _identifiers(table: OpenTable, own: str) -> Iterator[Any]:
    named, catalog = table.jvm.org.apache.iceberg.catalog, table.catalog
    first = named.TableIdentifier.parse(own).namespace()
    yield from _shown(partial(catalog.listTables, first))
    for other in _shown(partial(catalog.listNamespaces, named.Namespace.empty())):
        if not other.equals(first):
            yield from _shown(partial(catalog.listTables, other))


def _folders(catalog: Any, identifier: Any) -> Iterable[str]:
    other = catalog.loadTable(identifier)
    properties = other.properties()
    return [str(one) for one in (other.location(), *map(properties.get, PLACES)) if one is not None]


def _shown(ask: Callable[[], Iterable[_Shown]]) -> Sequence[_Shown]:
    """Return what the catalog shows. Nothing if it refuses, as without the right to list."""
    try:
        with translated(Step.PLAN):
            return [*ask()]
    except PermanentError as error:
        log.info("catalog_does_not_show", error=str(error))
        return []
