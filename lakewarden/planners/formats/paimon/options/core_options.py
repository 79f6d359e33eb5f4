"""Paimon's own options of a table, as far as an observation asks for them.

Source: Paimon 0.9.0 and 1.3.1, `org.apache.paimon.CoreOptions` (keys, fallback keys and defaults),
`org.apache.paimon.AbstractFileStore.bucketMode`, and the table spec, "Schema", "Compatibility".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from lakewarden.planners.decoding.json_stream import long
from lakewarden.planners.formats.paimon.options.service_options import (
    PartitionOptions,
    duration,
    partition_options,
    size,
)

_T = TypeVar("_T")

POSTPONED = -2
"""The bucket in which a table with postponed buckets keeps what no compaction has sorted yet."""


class BucketMode(StrEnum):
    """How rows find their bucket."""

    FIXED = "fixed buckets"
    DYNAMIC = "dynamic buckets"
    CROSS_PARTITION = "dynamic buckets across partitions"
    UNAWARE = "no buckets"
    POSTPONED = "postponed buckets"


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreOptions:
    """The options of one table, with Paimon's defaults.

    `levels` is the number of levels of a bucket, `trigger` the sorted runs at which a writer compacts a bucket.
    `small` is the size in bytes below which a file is small, `small_manifest` that of a manifest.
    Snapshots are kept for `retained_for`, at least `retained_least` and at most `retained_most` of them. `unserved` are
    the options that ask for something beside each commit, which the commits of Lakewarden do not do. `scattered` are
    those that put files where Lakewarden deletes none. `keeps_changelogs`: changelogs outlive their snapshots. The
    names of data files and changelogs begin with one of the `prefixes`. `has_sequence_field`: a column says which
    of two rows of a key is the newer one. `safe_snapshot` is `commit.strict-mode.last-safe-snapshot`: after that
    snapshot a commit of a writer fails if another commit user compacted or overwrote. `forced_up`: an option asks each
    compaction to take all of level 0, `forces_lookup`: and to look up older rows. `creates_tags`: commits create tags.
    `expires_tags`: new tags have an end, after which a commit deletes them. With `write_only` no commit does either.
    `needs_oldest`: a merge of rows is right only from the oldest row of its key on.
    """

    bucket: int
    bucket_mode: BucketMode
    write_only: bool
    merge_engine: str
    changelog_producer: str
    deletion_vectors: bool
    row_tracking: bool
    data_evolution: bool
    external_paths: bool
    trigger: int
    levels: int
    small: int
    small_files: int
    small_manifest: int
    retained_for: timedelta
    retained_least: int
    retained_most: int
    unserved: tuple[str, ...] = ()
    scattered: tuple[str, ...] = ()
    keeps_changelogs: bool = False
    prefixes: tuple[str, ...] = ()
    has_sequence_field: bool = False
    safe_snapshot: int | None = None
    forced_up: bool = False
    forces_lookup: bool = False
    creates_tags: bool = False
    expires_tags: bool = False
    needs_oldest: bool = False
    partitions: PartitionOptions = field(default_factory=PartitionOptions)

    @property
    def hides_level_0(self) -> bool:
        """Whether readers see a row only after a compaction (docs "Table Mode" and "First Row")."""
        return self.deletion_vectors or self.merge_engine == "first-row" or self.bucket_mode is BucketMode.POSTPONED

    @property
    def looks_up(self) -> bool:
        """Whether a compaction looks up the older rows of its keys (`CoreOptions.needLookup` of Paimon 1.3.1)."""
        return self.hides_level_0 or self.changelog_producer == "lookup" or self.forces_lookup

    @property
    def takes_level_0(self) -> bool:
        """Whether a minor compaction takes each file of level 0 (`MergeTreeCompactManagerFactory` of Paimon 1.3.1)."""
        return self.looks_up or self.forced_up

    @property
    def waits_for_compaction(self) -> bool:
        """Whether a reader waits for a compaction: any reader, or one of the changelog that a compaction makes."""
        return self.hides_level_0 or self.changelog_producer in ("lookup", "full-compaction")


_UNSERVED = (
    *("commit.callbacks", "metadata.iceberg.storage", "clustering.incremental", "tag.callbacks", "branch"),
    *("chain-table.enabled", "pk-clustering-override", "sequence.snapshot-ordering"),
)
STRICT_MODE = "commit.strict-mode.last-safe-snapshot"
_SCATTERED = ("data-file.path-directory", "index-file-in-data-file-dir")
_PREFIXES = {"data-file.prefix": "data-", "changelog-file.prefix": "changelog-"}
_OFF = ("", "false", "disabled", "none", "main")

_FUNCTION = ".aggregate-function"
_IN_PARTS = ("max", "min", "bool_and", "bool_or")
"""The functions with the same result in whatever parts they are carried out. So has a sum of whole numbers."""
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")

_MEBIBYTE = 2**20
_TARGET = {True: 128 * _MEBIBYTE, False: 256 * _MEBIBYTE}
"""`target-file-size` by default, of tables with a primary key and of others."""


def core_options(
    raw: Mapping[str, str],
    *,
    version: int,
    has_key: bool,
    key_has_partition: bool,
    values: Mapping[str, str] | None = None,
) -> CoreOptions:
    """Return the options of a schema of this `version`. `key_has_partition`: the primary key has every partition key.
    `values` are the types of the columns that are no key.

    Raises ValueError, which names the option, for a value that Paimon would not take.
    """
    bucket = _whole(raw, "bucket", 1 if version == 1 else -1)
    trigger = _whole(raw, "num-sorted-run.compaction-trigger", 5)
    target = _read(raw, "target-file-size", size, _TARGET[has_key])
    ratio = _read(raw, "compaction.small-file-ratio", float, 0.7)
    retained_for = _read(raw, "snapshot.time-retained", duration, timedelta(hours=1))
    least, most = _whole(raw, "snapshot.num-retained.min", 10), _whole(raw, "snapshot.num-retained.max", 2**31 - 1)
    return CoreOptions(
        bucket=bucket,
        bucket_mode=_mode(bucket, has_key=has_key, key_has_partition=key_has_partition),
        write_only=_is_on(raw, "write-only", "write.compaction-skip"),
        merge_engine=raw.get("merge-engine", "deduplicate").lower(),
        changelog_producer=raw.get("changelog-producer", "none").lower(),
        deletion_vectors=_is_on(raw, "deletion-vectors.enabled"),
        row_tracking=_is_on(raw, "row-tracking.enabled"),
        data_evolution=_is_on(raw, "data-evolution.enabled"),
        external_paths=bool(raw.get("data-file.external-paths")),
        trigger=trigger,
        levels=_whole(raw, "num-levels", trigger + 1),
        small=int(target * min(max(ratio, 0.0), 1.0)),
        small_files=_whole(raw, "compaction.min.file-num", 5),
        small_manifest=_read(raw, "manifest.target-file-size", size, 8 * _MEBIBYTE),
        retained_for=retained_for,
        retained_least=max(1, least),
        retained_most=max(1, most),
        unserved=tuple(key for key in _UNSERVED if raw.get(key, "").lower() not in _OFF),
        scattered=tuple(key for key in _SCATTERED if raw.get(key, "").lower() not in _OFF),
        keeps_changelogs=_read(raw, "changelog.time-retained", duration, retained_for) > retained_for
        or _whole(raw, "changelog.num-retained.min", least) > least
        or _whole(raw, "changelog.num-retained.max", most) > most,
        prefixes=tuple(sorted({*_PREFIXES.values(), *(raw.get(key, prefix) for key, prefix in _PREFIXES.items())})),
        has_sequence_field=bool(raw.get("sequence.field", "").strip()),
        safe_snapshot=_read(raw, STRICT_MODE, long, None),
        forced_up=_is_on(raw, "compaction.force-up-level-0"),
        forces_lookup=_is_on(raw, "force-lookup"),
        creates_tags=raw.get("tag.automatic-creation", "").lower() in ("process-time", "watermark"),
        expires_tags=bool(raw.get("tag.default-time-retained")),
        needs_oldest=_needs_oldest(raw, values),
        partitions=partition_options(raw),
    )


def _needs_oldest(raw: Mapping[str, str], values: Mapping[str, str] | None) -> bool:
    """Return whether a merge of the newer rows of a key alone may lose what they do to the older ones.

    A retraction has nothing to retract from there, and a delete that is followed by a row becomes that row. With a
    sequence field the rows between may come from the older ones. Run with Paimon 1.3.1, as a read of its
    `AggregateMergeFunction` and `PartialUpdateMergeFunction` says.
    """
    engine = raw.get("merge-engine", "").lower()
    if engine not in ("aggregation", "partial-update"):
        return False
    if raw.get("sequence.field") or _is_on(raw, f"{engine}.remove-record-on-delete"):
        return True
    if engine == "partial-update":
        others = ("fields.default-aggregate-function", "partial-update.remove-record-on-sequence-group")
        return any(key in others or key.endswith(_FUNCTION) for key in raw)
    default = raw.get("fields.default-aggregate-function", "last_non_null_value")
    functions = {(raw.get(f"fields.{name}{_FUNCTION}", default), of) for name, of in (values or {}).items()}
    return any(function not in _IN_PARTS and not (function == "sum" and of in _WHOLE) for function, of in functions)


def _mode(bucket: int, *, has_key: bool, key_has_partition: bool) -> BucketMode:
    if bucket == POSTPONED:
        return BucketMode.POSTPONED
    if bucket > 0:
        return BucketMode.FIXED
    if not has_key:
        return BucketMode.UNAWARE
    return BucketMode.DYNAMIC if key_has_partition else BucketMode.CROSS_PARTITION


def _is_on(raw: Mapping[str, str], *keys: str) -> bool:
    written = next((raw[key] for key in keys if key in raw), "false").lower()
    if written not in ("true", "false"):
        raise ValueError(f"the option {keys[0]} is {written[:60]!r}, which is neither true nor false")
    return written == "true"


def _whole(raw: Mapping[str, str], key: str, otherwise: int) -> int:
    return _read(raw, key, long, otherwise)


def _read(raw: Mapping[str, str], key: str, read: Callable[[str], _T], otherwise: _T) -> _T:
    if key not in raw:
        return otherwise
    try:
        return read(raw[key])
    except ValueError as wrong:
        raise ValueError(f"the option {key} is {raw[key][:60]!r}, which Paimon does not take") from wrong
