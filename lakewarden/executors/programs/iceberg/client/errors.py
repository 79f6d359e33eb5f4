"""What Iceberg's and Spark's exceptions mean to the daemon: the one border where they are translated.

Iceberg names its endings by class. What it calls a `CleanableFailure` (a conflict, a refusal) was not committed, and is
believed in every step; after `CommitStateUnknownException`, and in the commit step after anything else, only the
table's snapshots can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from lakewarden.executors.contract import Step
from lakewarden.executors.programs import java_errors
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError, YieldError

_UNKNOWN = "CommitStateUnknownException"
_A_WRITER_WAS_HERE = ("ValidationException", timedelta(seconds=30))
_POINTER_MOVED = ("CommitFailedException", timedelta(seconds=10))
_NEVER_COMMITTED = (
    # `CleanableFailure`s of org.apache.iceberg.exceptions that a person must end
    "NotAuthorizedException",
    "ForbiddenException",
    "BadRequestException",
    "NoSuchTableException",
    "NoSuchIcebergTableException",
    "NoSuchNamespaceException",
    "NoSuchViewException",
)
_REFUSED = ("IllegalArgumentException", "ValidationException")
"""What Iceberg raises for options and columns that cannot be, while it plans."""
_FOR_A_PERSON = (
    "java.lang.NoSuchMethodError",
    "java.lang.ClassNotFoundException",
    "java.lang.NoClassDefFoundError",
    "java.lang.UnsupportedOperationException",
    "Cannot read unsupported version",
    "Unsupported format version",
    "Cannot find catalog plugin class",
    "No suitable driver found",
)
_BEFORE_COMMIT = (
    ("ServiceFailureException", timedelta(seconds=30)),
    ("UncheckedSQLException", timedelta(seconds=30)),
)
_CANCELLED = "cancelled part of cancelled job"
_NO_SPACE = ("No space left on device", timedelta(minutes=5))
_MISSING_FILE = ("NotFoundException", "FileNotFoundException")


class JobsCancelledError(TemporaryError):
    """The run's Spark jobs were cancelled."""


def translated(step: Step) -> AbstractContextManager[None]:
    """Run Java calls of one step; whatever they raise leaves as a TemporaryError, PermanentError or UnknownError."""
    return java_errors.translated(step, meaning)


def on_the_way_out(what: str) -> AbstractContextManager[None]:
    """Run Java calls that free or release something: their failure is logged, and hides no ending of a run."""
    return java_errors.on_the_way_out(what, meaning)


def meaning(causes: Sequence[str], step: Step) -> LakewardenError:
    """Return the error that a chain of Java exceptions, outermost first, stands for."""
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


def _before_commit(causes: Sequence[str], classes: Sequence[str], message: str, step: Step) -> LakewardenError:
    """Return what an exception means of which it is certain that nothing was committed."""
    everything = "\n".join(causes)
    if _CANCELLED in everything:
        return JobsCancelledError(message)
    if _NO_SPACE[0] in everything:
        return TemporaryError(f"a disk is full, free some space (the worker's scratch?): {message}", delay=_NO_SPACE[1])
    if any(_named(classes, name) for name in _MISSING_FILE):
        return PermanentError(f"a file that the table names is missing: {message}")
    refused = step is Step.PLAN and any(_named(classes, name) for name in _REFUSED)
    if refused or any(text in everything for text in _FOR_A_PERSON):
        return PermanentError(message)
    for text, delay in _BEFORE_COMMIT:
        if text in everything:
            return TemporaryError(message, delay=delay)
    return TemporaryError(message)


def _named(classes: Sequence[str], name: str) -> bool:
    """Whether one of the classes is called so; `ValidationException` is not `JsonValidationException`."""
    return any(one.rsplit(".", 1)[-1] == name for one in classes)
