"""Other tables of the catalog that keep files in a table's folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import structlog

from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling
from lakewarden.planners.formats.iceberg.options.table_options import PLACES
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.step import Step
from lakewarden.planners.storage.locations import named_in_catalog

log = structlog.get_logger(__name__)

_MOST = 1000
"""So many tables of a catalog are asked, first those in the namespace of the table."""


def neighbours(table: OpenTable, metadata: TableMetadata) -> Mapping[str, str]:
    """Return the folders below a table's folder that other tables of its catalog name as theirs, by the path from
    there, each with the name of its table. A table that cannot be loaded names none.

    Raises PermanentError if another table lies in the very folder of this one, and what listing the catalog raises.
    """
    if table.catalog is None:
        return {}
    spelled, found = Spelling(), dict[str, str]()
    home = f"{spelled.folder(metadata.location)}/"
    _, own = named_in_catalog(table.assignment.location)
    for identifier in itertools.islice(_identifiers(table, own), _MOST):
        name = str(identifier.toString())
        for folder in () if name == own else _folders(table.catalog, identifier):
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
    named = table.jvm.org.apache.iceberg.catalog
    first = named.TableIdentifier.parse(own).namespace()
    with translated(Step.PLAN):
        yield from table.catalog.listTables(first)
        for other in table.catalog.listNamespaces(named.Namespace.empty()):
            if not other.equals(first):
                yield from table.catalog.listTables(other)


def _folders(catalog: Any, identifier: Any) -> list[str]:
    try:
        with translated(Step.PLAN):
            other = catalog.loadTable(identifier)
            properties = other.properties()
            return [str(one) for one in (other.location(), *map(properties.get, PLACES)) if one is not None]
    except LakewardenError as error:
        log.info("neighbour_not_loaded", table=str(identifier.toString()), error=str(error))
        return []
