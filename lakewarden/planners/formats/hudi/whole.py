"""A timeline's instants, all of them or none: for whoever is about to delete something."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.planners.formats.hudi.names import InstantFiles, collapse
from lakewarden.planners.formats.hudi.table_properties import TableProperties
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import Storage


def whole_timeline(properties: TableProperties, storage: Storage) -> Sequence[InstantFiles]:
    """Return the instants of a table's active timeline, oldest requested time first.

    Raises TemporaryError where the folder cannot be listed: a missing one is no empty one here.
    """
    try:
        return collapse(storage.listing(properties.timeline_folder), properties.layout)
    except FileNotFoundError as error:
        raise TemporaryError(f"{properties.timeline_folder} cannot be listed") from error
