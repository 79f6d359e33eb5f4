"""What Iceberg's and Spark's exceptions mean to the daemon. They are translated only here.

The class of an exception tells what happened. A `CleanableFailure` (a conflict, a refusal) was not committed. That is
trusted in every step. After `CommitStateUnknownException`, and in the commit step after any other exception, only the
table's snapshots tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from lakewarden.executors.programs import java_errors
from lakewarden.planners.formats.iceberg.backlog.blockers import LEAVE_TO_TABLE_BUCKET
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step

_UNKNOWN = "CommitStateUnknownException"
_A_WRITER_WAS_HERE = ("ValidationException", timedelta(seconds=30))
_POINTER_MOVED = ("CommitFailedException", timedelta(seconds=10))
_NEVER_COMMITTED = (
    # `CleanableFailure`s of org.apache.iceberg.exceptions that only an operator can end
    "NotAuthorizedException",
    "ForbiddenException",
    "BadRequestException",
    "NoSuchTableException",
    "NoSuchIcebergTableException",
    "NoSuchNamespaceException",
    "NoSuchViewException",
)
_REFUSED = ("IllegalArgumentException", "ValidationException")
"""What Iceberg raises while it plans, if options or columns are impossible."""
_FOR_A_PERSON = (
    "java.lang.NoSuchMethodError",
    "java.lang.ClassNotFoundException",
    "java.lang.NoClassDefFoundError",
    "java.lang.UnsupportedOperationException",
    "Cannot read unsupported version",
    "Unsupported format version",
    "Cannot find catalog plugin class",
)
_NO_DRIVER = (
    "No suitable driver found",
    "give Spark the driver of the database: spark.<profile>.conf: {spark.driver.extraClassPath: /path/to/driver.jar}",
)
_BEFORE_COMMIT = (
    ("ServiceFailureException", timedelta(seconds=30)),
    ("UncheckedSQLException", timedelta(seconds=30)),
)
_CANCELLED = "cancelled part of cancelled job"
_NO_SPACE = ("No space left on device", timedelta(minutes=5))
_DENIED = ("Access Denied", "AccessDenied")
_MISSING_FILE = ("NotFoundException", "FileNotFoundException")


class JobsCancelledError(TemporaryError):
    """The run's Spark jobs were cancelled."""


def translated(step: Step) -> AbstractContextManager[None]:
    """Run Java calls of one step. Their exceptions become a TemporaryError, PermanentError or UnknownError."""
    return java_errors.translated(step, meaning)


def on_the_way_out(what: str) -> AbstractContextManager[None]:
    """Run Java calls that free or release something. Their failure is logged, and does not hide a run's outcome."""
    return java_errors.on_the_way_out(what, meaning)


def meaning(causes: Sequence[str], step: Step) -> LakewardenError:
    """Return the error for a chain of Java exceptions, the outermost first."""
    classes = [cause.split(":", 1)[0] for cause in causes]
    message = java_errors.for_people(causes)
    if _named(classes, _UNKNOWN):
        return UnknownError(f"whether it was committed is not known: {message}")
    if _named(classes, _A_WRITER_WAS_HERE[0]) and step is not Step.PLAN:
        return YieldError(f"a writer changed what was rewritten: {message}", delay=_A_WRITER_WAS_HERE[1])
    if _named(classes, _POINTER_MOVED[0]):
        return TemporaryError(f"the table moved on during every attempt to commit: {message}", delay=_POINTER_MOVED[1])
    if any(_named(classes, name) for name in _NEVER_COMMITTED):
        return PermanentError(message)
    if _named(classes, "ServiceUnavailableException"):
        return TemporaryError(message, delay=timedelta(seconds=30))
    return UnknownError(message) if step is Step.COMMIT else _before_commit(causes, classes, message, step)


def plan_refused(error: LakewardenError, path: str) -> LakewardenError:
    """Return the error for a plan file that could not be written. If the store does not allow it, that is permanent."""
    if not any(text in str(error) for text in _DENIED):
        return error
    return PermanentError(
        f"the store refuses the plan file {path} beside the table: {error}. If the table lies in a table bucket (S3 "
        f"Tables), {LEAVE_TO_TABLE_BUCKET}. Otherwise let Lakewarden write to that folder"
    )


def _before_commit(causes: Sequence[str], classes: Sequence[str], message: str, step: Step) -> LakewardenError:
    """Return the error for an exception after which certainly nothing was committed."""
    everything = "\n".join(causes)
    if _CANCELLED in everything:
        return JobsCancelledError(message)
    if _NO_SPACE[0] in everything:
        return TemporaryError(f"a disk is full, free some space (the worker's scratch?): {message}", delay=_NO_SPACE[1])
    if any(_named(classes, name) for name in _MISSING_FILE):
        return PermanentError(f"a file that the table names is missing: {message}")
    if _NO_DRIVER[0] in everything:
        return PermanentError(f"{message}: {_NO_DRIVER[1]}")
    refused = step is Step.PLAN and any(_named(classes, name) for name in _REFUSED)
    if refused or any(text in everything for text in _FOR_A_PERSON):
        return PermanentError(message)
    for text, delay in _BEFORE_COMMIT:
        if text in everything:
            return TemporaryError(message, delay=delay)
    return TemporaryError(message)


def _named(classes: Sequence[str], name: str) -> bool:
    """Whether one of the classes has this name. `ValidationException` is not `JsonValidationException`."""
    return any(class_name.rsplit(".", 1)[-1] == name for class_name in classes)
