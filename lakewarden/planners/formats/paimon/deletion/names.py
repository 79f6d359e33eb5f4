"""The names of the files that snapshots have, read from their lists and manifests. A manifest is read once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from lakewarden.planners.formats.paimon.metadata.files import content_of, contents
from lakewarden.planners.formats.paimon.metadata.manifests import (
    ManifestMeta,
    NamedFile,
    read_index_names,
    read_manifest_list,
    read_named_files,
)
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.ports import Storage

MOST = 5_000_000
"""So many names of data files are held at a time: some hundred bytes each."""


@dataclass(kw_only=True, slots=True)
class FileNames:
    """Reads the names of the table in `location`. Everything raises what reading raises: VanishedError for a file that
    is not there, CorruptMetadataError and NewerVersionError for one that is not understood.
    """

    location: str
    storage: Storage
    _lists: dict[str, tuple[ManifestMeta, ...]] = field(default_factory=dict)
    _manifests: dict[str, Sequence[NamedFile]] = field(default_factory=dict)
    _indexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _held: int = 0

    def live(self, snapshot: Snapshot) -> set[str]:
        """Return the data files that a reader of a snapshot needs, with those that go with them.

        A commit may delete and add one data file to give it another index: each set of names counts for itself.
        """
        times = Counter[tuple[str, ...]]()
        for entry in self._entries([*self.listed(snapshot.base, snapshot.base_size), *self._delta(snapshot)]):
            times[entry.names] += 1 if entry.is_added else -1
        return {name for names, count in times.items() if count > 0 for name in names}

    def added(self, snapshot: Snapshot) -> set[str]:
        """Return the data files that a snapshot has added."""
        return {name for entry in self._entries(self._delta(snapshot)) if entry.is_added for name in entry.names}

    def deleted(self, snapshot: Snapshot) -> set[str]:
        """Return the data files that a snapshot needs no more and the one before it did. A file that only moves to
        another level is deleted and added.
        """
        entries = self._entries(self._delta(snapshot))
        gone = {name for entry in entries if not entry.is_added for name in entry.names}
        return gone - {name for entry in entries if entry.is_added for name in entry.names}

    def changelog(self, snapshot: Snapshot) -> set[str]:
        """Return the files of a snapshot's changelog."""
        if snapshot.changelog is None:
            return set()
        entries = self._entries(self.listed(snapshot.changelog, None))
        return {name for entry in entries for name in entry.names}

    def named(self, snapshot: Snapshot) -> set[str]:
        """Return every data file that any list of a snapshot names, needed or not."""
        entries = self._entries([*self.listed(snapshot.base, snapshot.base_size), *self._delta(snapshot)])
        return {name for entry in entries for name in entry.names} | self.changelog(snapshot)

    def metadata(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the files of a snapshot that are no data, by their paths below the table: those that are named by
        others come first. None of them is the file of the snapshot itself.
        """
        lists = [(snapshot.base, snapshot.base_size), (snapshot.delta, snapshot.delta_size)]
        if snapshot.changelog is not None:
            lists.append((snapshot.changelog, None))
        paths = [f"manifest/{manifest.name}" for name, size in lists for manifest in self.listed(name, size)]
        if snapshot.statistics is not None:
            paths.append(f"statistics/{snapshot.statistics}")
        if snapshot.index is not None:
            paths += [f"index/{name}" for name in self.indexes(snapshot.index)]
            paths.append(f"manifest/{snapshot.index}")
        return (*dict.fromkeys(paths), *(f"manifest/{name}" for name, _ in lists))

    def listed(self, name: str, size: int | None) -> tuple[ManifestMeta, ...]:
        """Return what a manifest list names."""
        if name not in self._lists:
            file = self._file(name)
            self._lists[name] = read_manifest_list(content_of(file, self.storage), file=file, size=size)
        return self._lists[name]

    def indexes(self, name: str) -> tuple[str, ...]:
        """Return the index files that an index manifest names."""
        if name not in self._indexes:
            file = self._file(name)
            self._indexes[name] = read_index_names(content_of(file, self.storage), file=file)
        return self._indexes[name]

    def _delta(self, snapshot: Snapshot) -> tuple[ManifestMeta, ...]:
        return self.listed(snapshot.delta, snapshot.delta_size)

    def _entries(self, manifests: Iterable[ManifestMeta]) -> list[NamedFile]:
        wanted = list(manifests)
        missing = {self._file(manifest.name): manifest for manifest in wanted if manifest.name not in self._manifests}
        for file, content in contents(missing, self.storage):
            if isinstance(content, LakewardenError):
                raise content
            entries = read_named_files(content, missing[file], file=file)
            self._held += len(entries)
            if self._held > MOST:
                raise PermanentError(
                    f"the manifests of {self.location} name more than {MOST} files, which is more than are compared at "
                    "a time: let Paimon's own expire_snapshots run, or keep fewer snapshots"
                )
            self._manifests[missing[file].name] = entries
        return [entry for manifest in wanted for entry in self._manifests[manifest.name]]

    def _file(self, name: str) -> str:
        return f"{self.location}/manifest/{name}"


# The names that Paimon gives to files, and where. A file with any other name is never an orphan. Pure.
#
# Source: `org.apache.paimon.utils.FileStorePathFactory`, `io.DataFilePathFactory` and `fs.Path.createTempPath` of
# Paimon 1.3.1, and the files that paimon-spark 0.9.0 and pypaimon 2.1.0 write.

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_COMPRESSION = "none|snappy|lz4|lzo|zstd|zlib|gzip|brotli|bzip2|deflate|xz"
_FORMAT = "parquet|orc|avro|csv|json|text|blob|lance"
_BUCKET = re.compile("bucket-[0-9]{1,10}")
_NEW = r"(?:[0-9a-f]{16}|[0-9a-f]{32}|" + _UUID + ")"
"""Of 16 digits is the id of a run of Lakewarden, which writes the hint of the oldest snapshot."""
_UNDER_WAY = r"\.(?:%s)\." + _NEW + r"\.tmp"
"""A file is written under such a name before it is renamed."""

FOLDERS: Mapping[str, re.Pattern[str]] = {
    "manifest": re.compile(f"(?:manifest|manifest-list|index-manifest)-{_UUID}-[0-9]+"),
    "index": re.compile(f"index-{_UUID}-[0-9]+"),
    "statistics": re.compile(f"stat-{_UUID}-[0-9]+"),
    "snapshot": re.compile(_UNDER_WAY % "snapshot-[0-9]+|LATEST|EARLIEST"),
    "schema": re.compile(_UNDER_WAY % "schema-[0-9]+"),
    "tag": re.compile(_UNDER_WAY % "tag-[^/]{1,200}"),
    "consumer": re.compile(_UNDER_WAY % "consumer-[^/]{1,200}"),
    "changelog": re.compile(_UNDER_WAY % "changelog-[0-9]+|LATEST|EARLIEST"),
}
"""What may be an orphan right below the table's folder, by the folder that it is in. Of snapshots, schemas, tags,
consumers and changelogs only what a killed writer has not renamed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """How one table names its folders of partitions and its data files."""

    partition_keys: tuple[str, ...]
    data: re.Pattern[str]

    def is_partition(self, name: str, depth: int) -> bool:
        """Whether a folder is one of the partition key at this depth."""
        key, separator, _ = name.partition("=")
        return bool(separator) and depth < len(self.partition_keys) and unquote(key) == self.partition_keys[depth]

    def is_bucket(self, name: str, depth: int) -> bool:
        """Whether a folder is a bucket, which lies below all partition keys."""
        return depth == len(self.partition_keys) and bool(_BUCKET.fullmatch(name))

    def is_data(self, name: str) -> bool:
        """Whether a file of a bucket is a data file, a changelog, or an index of one."""
        return bool(self.data.fullmatch(name))


def naming_of(schema: Schema) -> Naming:
    """Return the names of a table with this schema."""
    prefixes = "|".join(re.escape(prefix) for prefix in schema.options.prefixes)
    numbered = f"(?:{prefixes}){_UUID}-[0-9]+"
    whole = rf"(?:\.(?:{_COMPRESSION}))?\.(?:{_FORMAT})"
    return Naming(
        partition_keys=schema.partition_keys,
        data=re.compile(rf"{numbered}(?:{whole}(?:(?:-[0-9]+)?\.index)?|\.index)"),
    )
