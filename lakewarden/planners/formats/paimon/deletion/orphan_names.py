"""The names that Paimon gives to files, and where. A file with any other name is never an orphan. Pure.

Source: `org.apache.paimon.utils.FileStorePathFactory`, `io.DataFilePathFactory` and `fs.Path.createTempPath` of Paimon
1.3.1, and the files that paimon-spark 0.9.0 and pypaimon 2.1.0 write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from lakewarden.planners.formats.paimon.metadata.schemas import Schema

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
    prefixes = "|".join(re.escape(one) for one in schema.options.prefixes)
    numbered = f"(?:{prefixes}){_UUID}-[0-9]+"
    whole = rf"(?:\.(?:{_COMPRESSION}))?\.(?:{_FORMAT})"
    return Naming(
        partition_keys=schema.partition_keys,
        data=re.compile(rf"{numbered}(?:{whole}(?:(?:-[0-9]+)?\.index)?|\.index)"),
    )
