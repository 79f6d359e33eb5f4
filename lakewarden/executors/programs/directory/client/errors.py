"""What Spark's exceptions mean for a directory. They are translated only here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from lakewarden.executors.programs import java_errors
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Step

_NO_SPACE = "No space left on device"
_OLD_DATE = "READ_ANCIENT_DATETIME"


def translated(step: Step) -> AbstractContextManager[None]:
    """Run Java calls of one step. Their exceptions become a TemporaryError, PermanentError or UnknownError."""
    return java_errors.translated(step, meaning)


def meaning(causes: Sequence[str], _step: Step) -> LakewardenError:
    """Return the error. Files that Spark cannot read or write need an operator. Nothing of theirs is committed."""
    message = java_errors.for_people(causes)
    if any("cancelled" in cause for cause in causes):
        return TemporaryError("the Spark jobs of the run were cancelled")
    if any(_OLD_DATE in cause for cause in causes):
        return PermanentError(
            "it has dates before 1582-10-15, or times before 1900, in files that Spark 3 did not write: the files do "
            "not say whether they count by the Julian calendar"
        )
    if any(_NO_SPACE in cause for cause in causes):
        return TemporaryError(message, delay=timedelta(minutes=5))
    return PermanentError(message)
