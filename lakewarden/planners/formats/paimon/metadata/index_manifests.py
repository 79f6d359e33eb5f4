"""Index manifests: deletion vectors, and what else lies in the folder `index`.

Source: Paimon's table spec, "Manifest" and "Table index"; `org.apache.paimon.manifest.IndexManifestEntry` of 1.3.1 and
`pypaimon.manifest.index_manifest_file` of 2.1.0 for the names of the fields. A snapshot names one, which has all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from lakewarden.planners.decoding.avro import opened
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.numbers import count
from lakewarden.planners.formats.paimon.metadata.files import (
    MALFORMED,
    NewerVersionError,
    corrupt,
    file_name,
    require_known,
)
from lakewarden.planners.settings import shown

NEWEST = 1
"""The newest version of an entry that is known."""

_FIELDS = frozenset(
    (
        "_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT",
        "_DELETIONS_VECTORS_RANGES", "_EXTERNAL_PATH",
    )
)  # fmt: skip
_ADD = 0
_VECTORS = "DELETION_VECTORS"
_TYPES = frozenset((_VECTORS, "HASH"))


class IndexFiles(NamedTuple):
    """What an index manifest names: files with deletion vectors, the data files that have one, their deleted rows
    (None where the release did not count them), and the other index files.
    """

    vector_files: int = 0
    vectors: int = 0
    deleted_rows: int | None = 0
    others: int = 0


NO_INDEX = IndexFiles()


def read_index_manifest(content: bytes, *, file: str) -> IndexFiles:
    """Return what an index manifest names: it has all index files of its snapshot. Raises CorruptMetadataError and
    NewerVersionError.
    """
    try:
        return _index_files(_entries(opened(content).records(), file))
    except DamagedError as wrong:
        raise corrupt(file, "index manifest", wrong) from wrong
    except MALFORMED as wrong:
        raise corrupt(file, "index manifest", wrong) from wrong


def read_index_names(content: bytes, *, file: str) -> tuple[str, ...]:
    """Return the names of the index files. Raises as `read_index_manifest` does, also for one that lies elsewhere."""
    try:
        found = tuple(_entries(opened(content).records(), file))
        if any(one.get("_EXTERNAL_PATH") for one in found):
            raise DamagedError("it has an index file outside of the table's folder")
        return tuple(file_name(one["_FILE_NAME"]) for one in found)
    except DamagedError as wrong:
        raise corrupt(file, "index manifest", wrong) from wrong
    except MALFORMED as wrong:
        raise corrupt(file, "index manifest", wrong) from wrong


def _entries(records: Iterable[dict[str, Any]], file: str) -> Iterator[dict[str, Any]]:
    for record in records:
        require_known(file, "index manifest", count(record["_VERSION"], "_VERSION"), NEWEST)
        if newer := sorted(key[:80] for key in record.keys() - _FIELDS if record[key] is not None):
            raise _newer(file, f"the field {shown(newer[0])}")
        if record["_KIND"] != _ADD:
            raise DamagedError("it has an entry that adds no index file")
        if record["_INDEX_TYPE"] not in _TYPES:
            raise _newer(file, f"an index of the type {shown(str(record['_INDEX_TYPE'])[:80])}")
        yield record


def _newer(file: str, what: str) -> NewerVersionError:
    return NewerVersionError(
        f"{file} is an index manifest with {what}, which Lakewarden does not know: upgrade Lakewarden, or write the "
        "table with an older release of Paimon"
    )


def _index_files(entries: Iterable[dict[str, Any]]) -> IndexFiles:
    files = vectors = others = 0
    deleted: int | None = 0
    for entry in entries:
        if entry["_INDEX_TYPE"] != _VECTORS:
            others += 1
            continue
        files += 1
        for one in entry.get("_DELETIONS_VECTORS_RANGES") or ():
            vectors += 1
            rows = one.get("_CARDINALITY")
            deleted = None if rows is None or deleted is None else deleted + count(rows, "_CARDINALITY")
    return IndexFiles(vector_files=files, vectors=vectors, deleted_rows=deleted, others=others)
