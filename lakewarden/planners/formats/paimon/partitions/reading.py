"""Reads the markers of partitions: those that are known are not read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakewarden.planners.formats.paimon.partitions.listed import PaimonPartition
from lakewarden.planners.formats.paimon.writers.markers import LARGEST, NAME, Done, parse_marker
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import read_ahead


def marker_file(location: str, partition: PaimonPartition) -> str:
    """Return where the marker of a partition is. Raises PermanentError for one without a name."""
    if partition.name is None:
        raise PermanentError("the folder of a partition cannot be told")
    return f"{location}/{partition.name.folder}/{NAME}"


def read_markers(location: str, partitions: Iterable[PaimonPartition], storage: Storage) -> Mapping[bytes, Done]:
    """Return the markers of partitions that have one. Raises TemporaryError."""
    rows = {marker_file(location, one): one.row for one in partitions if one.name is not None}
    read = read_ahead(rows, lambda file: _read(file, storage))
    return {rows[file]: done for file, done in read if done is not None}


def _read(file: str, storage: Storage) -> Done | None:
    """Return what a marker says. None if there is none, or if it is no marker of Paimon's."""
    try:
        return parse_marker(storage.read(file, limit=LARGEST))
    except (FileNotFoundError, PermanentError):
        return None
