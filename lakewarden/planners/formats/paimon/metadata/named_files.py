"""The data files that a manifest names, one by one.

Source: Paimon's table spec, "Manifest". `_EXTRA_FILES` lie beside the data file (file indexes, changelogs of 0.9).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lakewarden.planners.decoding.avro import opened
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import count
from lakewarden.planners.formats.paimon.metadata.files import (
    MALFORMED,
    NewerVersionError,
    corrupt,
    file_name,
    require_known,
)
from lakewarden.planners.formats.paimon.metadata.manifests import NEWEST, ManifestMeta, newer_fields


class NamedFile(NamedTuple):
    """One entry: whether it adds or deletes the file, the file's name, and the names of the files that go with it."""

    is_added: bool
    name: str
    extra: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names of the entry."""
        return (self.name, *self.extra)


def read_named_files(content: bytes, meta: ManifestMeta, *, file: str) -> Sequence[NamedFile]:
    """Return the entries of a manifest, in their order. Raises CorruptMetadataError, also where the manifest is not
    the one that its list describes or names a file outside of the table's folder. Raises NewerVersionError for a newer
    version, and for a field with a value that Lakewarden does not know: it may name a file.
    """
    try:
        if len(content) != meta.size:
            raise DamagedError(f"it has {len(content)} bytes instead of {meta.size}")
        entries = [_entry(record, file) for record in opened(content).records()]
        added = sum(entry.is_added for entry in entries)
        if (added, len(entries) - added) != (meta.added, meta.deleted):
            raise DamagedError(f"it has other entries than the {meta.added} and {meta.deleted} of its list")
    except DamagedError as wrong:
        raise corrupt(file, "manifest", wrong) from wrong
    except MALFORMED as wrong:
        raise corrupt(file, "manifest", wrong) from wrong
    return entries


def _entry(record: dict[str, Any], file: str) -> NamedFile:
    require_known(file, "manifest", count(record["_VERSION"], "_VERSION"), NEWEST)
    data_file, kind = record["_FILE"], record["_KIND"]
    if newer := newer_fields(record, data_file):
        raise NewerVersionError(
            f"{file} has a field that Lakewarden does not know ({', '.join(sorted(newer))}), and it may name a file: "
            "upgrade Lakewarden"
        )
    if kind not in (0, 1):
        raise DamagedError(f"it has an entry of kind {kind}")
    if data_file.get("_EXTERNAL_PATH"):
        raise DamagedError("it has a file outside of the table's folder")
    return NamedFile(
        is_added=kind == 0,
        name=file_name(data_file["_FILE_NAME"]),
        extra=tuple(file_name(name) for name in data_file.get("_EXTRA_FILES") or ()),
    )
