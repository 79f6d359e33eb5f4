"""What an Iceberg writer of a table could have written, by the path below the table's folder.

People keep other things in the folder of a table: the checkpoint of a stream, tables of other formats, a table below.
No snapshot knows them, and they are no orphans.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling, path_alone

_DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
_METADATA_PATH = "write.metadata.path"

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DATA_FILE = re.compile(
    rf"([01]{{8}}-)?(\d{{5}}-\d+-\S*{_UUID}\S*|\d{{8}}_\d{{6}}_\d{{5}}_\w{{5}}-{_UUID}|{_UUID}(-\d+)*)"
    r"\.(parquet|orc|avro|puffin)"
)
"""Source: Iceberg 1.11, `OutputFileFactory.generateFilename`, also of pyiceberg and iceberg-go; Trino 470,
`IcebergUtil.fileName`; DuckDB 1.4. In front, object storage without paths of partitions puts the end of a hash
(`LocationProviders.ObjectStoreLocationProvider`)."""


def is_named_by_a_writer(path: str) -> bool:
    """Whether a writer of Iceberg names files of data so. Files that `add_files` took in have other names."""
    return _DATA_FILE.fullmatch(path.rpartition("/")[2]) is not None


_METADATA_FILE = re.compile(
    rf"lakewarden-\S+|\S+\.(avro|stats|puffin)|(v\d+|\d+-{_UUID}|{_UUID})(\.\w+)?\.metadata\.json(\.\w+)?"
)
"""Writers name manifests and statistics as they like. Versions of the table have numbers, and in a Hadoop catalog the
next one has no number yet (`HadoopTableOperations.commit`). People keep copies of versions under other names."""

_PARTITION = re.compile(r"([^/=]+)=[^/]*")
_HASH = re.compile(r"[01]{4}|[01]{8}|[0-9a-f]{8}|[\w-]{6}==")
"""Folders of an object storage layout, between a table's folder of data and a file: bits, before Iceberg 1.7 base64."""


def is_of_a_layout(folder: str) -> bool:
    """Whether Iceberg names a folder so, below a table: the folders of data and metadata, partitions and hashes."""
    return folder in ("data", "metadata") or any(kind.fullmatch(folder) for kind in (_PARTITION, _HASH))


class OwnNames:
    """Whether an Iceberg writer of this table could have written a file. A location provider of the user's own is not
    known: its files are no orphans. Nor are files in partitions by fields that the table never had.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        home = f"{_canonical(metadata.location)}/"
        named = [_canonical(metadata.properties[key]) for key in _DATA_PATHS if key in metadata.properties]
        below = [f"{one}/".removeprefix(home) for one in named if f"{one}/".startswith(home)]
        self._data = tuple(sorted({"data/", *below}, key=len, reverse=True))
        self._fields = {field.name for spec in metadata.specs.values() for field in spec}
        told = f"{_canonical(metadata.properties.get(_METADATA_PATH, f'{home}metadata'))}/"
        self._metadata = {"metadata/", told.removeprefix(home)}

    def __contains__(self, path: str) -> bool:
        """Whether a file may be one of the table's. `path` is the path from the table's folder."""
        folder, _, name = path.rpartition("/")
        if f"{folder}/" in self._metadata:
            return _METADATA_FILE.fullmatch(name) is not None
        return _DATA_FILE.fullmatch(name) is not None and any(self._leads(data, folder) for data in self._data)

    def _leads(self, data: str, folder: str) -> bool:
        inner = f"{folder}/" if folder else ""
        return inner.startswith(data) and all(map(self._is_between, inner[len(data) :].split("/")[:-1]))

    def _is_between(self, folder: str) -> bool:
        partition = _PARTITION.fullmatch(folder)
        is_own = partition is not None and unquote_plus(partition[1]) in self._fields
        return is_own or _HASH.fullmatch(folder) is not None


def _canonical(location: str) -> str:
    return path_alone(Spelling().folder(location))
