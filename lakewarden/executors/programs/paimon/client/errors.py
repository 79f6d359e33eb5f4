"""What Paimon's exceptions mean to the daemon. They are translated only here.

Paimon's client publishes nothing: the snapshots that it makes appear in a folder of the worker, and Lakewarden gives
them their place in the table. So after each exception of the client certainly nothing was committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from lakewarden.executors.programs import java_errors
from lakewarden.planners.model.errors import LakewardenError, NotYetError, PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.step import Step

_CONFLICTS = ("conflicts detected", "Give up committing", "commit conflicts")
_A_WRITER_WAS_HERE = timedelta(minutes=1)
_NO_SPACE = ("No space left on device", timedelta(minutes=5))
_NOTHING_TO_SCAN = "EndOfScanException"
_MISSING_FILE = ("FileNotFoundException", "NoSuchFileException")
_FOR_A_PERSON = (
    "java.lang.NoSuchMethodError",
    "java.lang.ClassNotFoundException",
    "java.lang.NoClassDefFoundError",
    "java.lang.UnsupportedOperationException",
    "java.nio.file.AccessDeniedException",
    "Could not find any factory for identifier",
)


def translated(step: Step) -> AbstractContextManager[None]:
    """Run Java calls of one step. Their exceptions become a TemporaryError, PermanentError or UnknownError."""
    return java_errors.translated(step, meaning)


def on_the_way_out(what: str) -> AbstractContextManager[None]:
    """Run Java calls that free or release something. Their failure is logged, and does not hide a run's outcome."""
    return java_errors.on_the_way_out(what, meaning)


def meaning(causes: Sequence[str], __step: Step) -> LakewardenError:
    """Return the error for a chain of Java exceptions, the outermost first."""
    everything = "\n".join(causes)
    message = java_errors.for_people(causes)
    if any(text in everything for text in _CONFLICTS):
        return YieldError(f"another program has changed files that were compacted: {message}", delay=_A_WRITER_WAS_HERE)
    if _NO_SPACE[0] in everything:
        return TemporaryError(f"a disk is full, free some space (the worker's scratch?): {message}", delay=_NO_SPACE[1])
    if _NOTHING_TO_SCAN in everything:
        return NotYetError(f"Paimon finds no small file: {message}")
    if any(name in everything for name in _MISSING_FILE):
        return TemporaryError(f"a file is missing, an expiry may have been faster: {message}", delay=_A_WRITER_WAS_HERE)
    if any(text in everything for text in _FOR_A_PERSON):
        return PermanentError(message)
    return TemporaryError(message)
