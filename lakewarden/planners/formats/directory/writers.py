"""The writers of a directory: what they set so that one side alone says when a partition is committed, which of them
are at work, and their hooks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from statistics import median
from typing import Any
from urllib.parse import unquote_plus

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.listing.walk import DEEPEST
from lakewarden.planners.formats.directory.options import DirectoryTableOptions
from lakewarden.planners.hooks import At, CommitHook, Hint, HookReader, MalformedHookError, json_object
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine, WriterOption
from lakewarden.planners.settings import format_duration, shown

ENGINES = (FLINK, SPARK)


def writer_options(table: Table, *, engine: WriterEngine) -> tuple[WriterOption, ...]:
    """Return the options. Those of Flink are options of its filesystem and Hive sinks.

    A policy of Flink's own cannot be switched off by a value: leave out `sink.partition-commit.policy.kind`.
    """
    return tuple(_for_flink() if engine == FLINK else _for_spark(table))


def _for_flink() -> Iterator[WriterOption]:
    yield WriterOption(
        key="sink.rolling-policy.inactivity-interval",
        value="1 min",
        why="a part to which nothing is written is closed, so that its partition can be committed; leave out "
        "sink.partition-commit.policy.kind, by which Flink would commit it before",
    )


def _for_spark(table: Table) -> Iterator[WriterOption]:
    value = "false" if Service.PARTITION_COMMIT in table.policies else "true"
    owner = "Lakewarden's" if Service.PARTITION_COMMIT in table.policies else "Spark's, as by default"
    yield WriterOption(
        key="spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs",
        value=value,
        why=f"the marker is {owner}",
    )


# Events of object stores: which directory an object was written into.
#
# S3 sends `Records` with a bucket and a URL-encoded key, also wrapped by SNS. EventBridge sends a `detail` with a plain
# key. Google Cloud Storage sends a `bucket` and a `name`, as JSON or as the data of a CloudEvent. A directory may lie
# at any folder above the object. So each of these is a hint, and those that are no table are ignored.

_MOST_RECORDS = 1000
_LONGEST_KEY = 2048


def hints_of(body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return the folders above the objects of an event. There are none in an event that is a test. Raises
    MalformedHookError.
    """
    if not whole:
        raise MalformedHookError("the event is too long: a notification of a store has at most some kilobytes")
    event = json_object(body)
    if event.get("Type") == "Notification" and isinstance(event.get("Message"), str):
        event = _parsed(event["Message"])
    if event.get("Event") == "s3:TestEvent" or event.get("Type") == "SubscriptionConfirmation":
        return ()
    objects = list(_objects(event))
    if not objects:
        raise MalformedHookError(
            "the body names no object, as events of object stores do: in Records (with s3.bucket.name and "
            "s3.object.key), in detail, or as bucket and name"
        )
    places = dict.fromkeys(place for scheme, bucket, key in objects for place in _above(scheme, bucket, key))
    return tuple(At(location=place, folder=folder) for place, folder in places)


def _objects(event: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the scheme, the bucket and the key of each object that an event names."""
    records = event.get("Records")
    for record in records[:_MOST_RECORDS] if isinstance(records, list) else ():
        match record:
            case {"s3": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
                yield "s3", bucket, unquote_plus(key)
    match event:
        case {"source": "aws.s3", "detail": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
            yield "s3", bucket, key
        case {"bucket": str(bucket), "name": str(key)} | {"data": {"bucket": str(bucket), "name": str(key)}}:
            yield "gs", bucket, key


def _above(scheme: str, bucket: str, key: str) -> Iterator[tuple[str, str]]:
    """Yield each folder above an object up to the bucket, and the path from there to the folder of the object."""
    levels = key[:_LONGEST_KEY].split("/")[:-1]
    for end in range(min(len(levels), 2 * DEEPEST), -1, -1):
        yield "/".join((f"{scheme}://{bucket}", *levels[:end])), "/".join(levels[end:])


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise MalformedHookError("the message of the notification is not JSON") from wrong
    return message if isinstance(message, dict) else {}


_READER = HookReader(sender="object_store", read=lambda body, whole, _catalog: hints_of(body, whole=whole))

HOOK = CommitHook(
    senders=("object_store",),
    about="Take an event of an object store: an S3 notification, plain or from SNS or EventBridge, or one of GCS.",
    reader_of=lambda _path: _READER,
)


# Whether a partition is active: a part is in progress, or something changed within the writer's own rhythm. Pure.

_NEWEST_PARTITIONS = 64
_LONGEST_QUIET = timedelta(days=3650)


@dataclass(frozen=True, kw_only=True, slots=True)
class Active:
    """A partition that is still written to, as far as can be told, and why; `until` when time alone ends that."""

    reason: str
    until: datetime | None = None


def moment(seconds: float) -> datetime:
    """Return a time of a listing."""
    return datetime.fromtimestamp(seconds, UTC)


def usual_interval(folders: Iterable[Folder]) -> float | None:
    """Return the usual time between two changes of one partition, in seconds: the median of the partitions that changed
    last. None where no partition tells.
    """
    intervals = ((folder.newest, folder.interval) for folder in folders if folder.interval is not None)
    newest = nlargest(_NEWEST_PARTITIONS, intervals)
    return median(interval for _, interval in newest) if newest else None


def quiet_time(folder: Folder, usual: float | None, options: DirectoryTableOptions) -> timedelta:
    """Return for how long a partition is active after a change: by its own rhythm and that of the table, the longer
    counts, and never less than `quiet_for`.
    """
    rhythm = max(folder.interval or 0.0, usual or 0.0) * options.quiet_intervals
    longest = min(timedelta(seconds=min(rhythm, _LONGEST_QUIET.total_seconds())), _LONGEST_QUIET)
    return max(options.quiet_for, longest)


def in_progress(folder: Folder, options: DirectoryTableOptions, now: datetime) -> bool:
    """Whether a folder holds a part in progress that is not abandoned, or a folder of such parts."""
    if _is_staging(folder, options, now):
        return True
    if folder.staged == 0:
        return False
    horizon = options.abandoned_after
    return horizon is None or now - moment(folder.staged_at) <= horizon


def _is_staging(folder: Folder, options: DirectoryTableOptions, now: datetime) -> bool:
    """Whether a folder of parts lies in a folder. On a disk the time of such a folder does not show what happens deeper
    in it: it is never abandoned. On an object store one that holds no byte is abandoned after `restore_horizon`.
    """
    if folder.staging == 0 or not folder.hollow_since or options.restore_horizon is None:
        return folder.staging > 0
    return now - moment(folder.hollow_since) <= options.restore_horizon


def active(
    folder: Folder, above: Iterable[Folder], usual: float | None, options: DirectoryTableOptions, now: datetime
) -> Active | None:
    """Return why a partition is active; None where it is inactive. `above` are the folders above it: a folder of parts
    in progress that lies there may be of any partition below.
    """
    if in_progress(folder, options, now):
        return Active(reason=f"{_parts(folder.staged + folder.staging)} in progress{_named(folder)}")
    staging = next((folder_above for folder_above in above if _is_staging(folder_above, options, now)), None)
    if staging is not None:
        return Active(reason=f"a folder above holds parts in progress{_named(staging)}")
    quiet = quiet_time(folder, usual, options)
    ends_at = moment(folder.changed_at) + quiet
    if now <= ends_at:
        return Active(reason=f"it changed within {format_duration(quiet)}, the writer's rhythm", until=ends_at)
    return None


def _named(folder: Folder) -> str:
    return f" ({shown(folder.staging_name)})" if folder.staging_name else ""


def _parts(count: int) -> str:
    return "a part is" if count == 1 else f"{count} parts are"
