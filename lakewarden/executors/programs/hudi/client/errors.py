"""What Hudi's and Spark's exceptions mean to the daemon. They are translated only here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from lakewarden.executors.programs import java_errors
from lakewarden.planners.formats.hudi.metadata.heartbeats import WINDOW
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step

_LOCK_HELD = ("Unable to acquire lock", "Unable to acquire the lock", "FAILED_TO_ACQUIRE")
_LOCK_DELAY = timedelta(seconds=30)
_NOT_COMMITTED = (
    # Hudi raises these before it completes an instant, so they are believed even in the commit step.
    ("due to heartbeat by concurrent writer/job", WINDOW),
    ("HoodieDeletePartitionPendingTableServiceException", timedelta(minutes=1)),
)
_MADE_WAY = ("HoodieWriteConflictException", timedelta(seconds=30))  # of us and a writer, we give way
_BEFORE_COMMIT = (
    ("HoodieLockException", timedelta(seconds=30)),
    ("No Compaction request available", timedelta(seconds=10)),  # another client completed it: observe again
    ("cancelled part of cancelled job", timedelta(seconds=10)),
)
_FOR_A_PERSON = (
    "TableNotFoundException",
    "HoodieUpgradeDowngradeException",
    "HoodieNotSupportedException",
    "java.lang.NoSuchMethodError",
    "java.lang.ClassNotFoundException",
    "java.lang.NoClassDefFoundError",
    "Config conflict",
)
_NO_SPACE = ("No space left on device", timedelta(minutes=5))
_ADVICE = (
    (
        "No file slices found for partition",
        "a partition of the metadata table has no file: add services: {metadata_rebuild: {}} and trigger a run of it, "
        "which rebuilds the metadata table, and release this service",
    ),
    (
        "SparkRecordMergingUtils.getCachedFieldNameToIdMapping",
        "Hudi 1.2 cannot merge a key that was updated in part (MERGE INTO), deleted and written again, and readers in "
        "Spark fail, too: roll the last write back, let a compaction run, and write it again. With "
        "hoodie.spark.sql.merge.into.partial.updates=false writers make no partial updates",
    ),
)
_MISSING_DATA_FILE = re.compile(r"FileNotFoundException\b.*?([^\s/]+(?:\.parquet|\.orc|\.log\.\d\S*))")


class LockHeldError(TemporaryError):
    """The table's lock was not free in the time that our client waits for it."""


def translated(step: Step) -> AbstractContextManager[None]:
    """Run Java calls of one step. Their exceptions become a TemporaryError, PermanentError or UnknownError."""
    return java_errors.translated(step, meaning)


def on_the_way_out(what: str) -> AbstractContextManager[None]:
    """Run Java calls that free or release something. Their failure is logged, and does not hide a run's ending."""
    return java_errors.on_the_way_out(what, meaning)


def meaning(causes: Sequence[str], step: Step) -> LakewardenError:
    """Return the error that a chain of Java exceptions, outermost first, stands for."""
    everything = "\n".join(causes)
    message = java_errors.for_people(causes)
    if any(text in everything for text in _LOCK_HELD):  # raised before an instant is completed
        return LockHeldError(f"the table's lock was not released in time: {message}", delay=_LOCK_DELAY)
    if _NO_SPACE[0] in everything and step is not Step.COMMIT:
        return TemporaryError(f"a disk is full, free some space (the worker's scratch?): {message}", delay=_NO_SPACE[1])
    missing = _MISSING_DATA_FILE.search(everything)
    if missing is not None and step is not Step.COMMIT:
        return PermanentError(f"{missing[1]} is missing although a plan or the timeline names it: {message}")
    for text, advice in _ADVICE:
        if text in everything and step is not Step.COMMIT:
            return PermanentError(f"{advice}: {message}")
    if _MADE_WAY[0] in everything:
        return YieldError(message, delay=_MADE_WAY[1])
    for text in _FOR_A_PERSON:
        if text in everything and step is not Step.COMMIT:
            return PermanentError(message)
    believed = _NOT_COMMITTED if step is Step.COMMIT else (*_NOT_COMMITTED, *_BEFORE_COMMIT)
    for text, delay in believed:
        if text in everything:
            return TemporaryError(message, delay=delay)
    return UnknownError(message) if step is Step.COMMIT else TemporaryError(message)
