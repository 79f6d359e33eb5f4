"""Errors, named by what the caller does next.

LakewardenError
 ├─ TemporaryError     try again after `delay`
 │   └─ YieldError     we stepped back, before anything was committed: nothing failed
 ├─ PermanentError     trying again changes nothing: a person must act
 └─ UnknownError       it may have happened: ask the timeline, never guess
"""

from __future__ import annotations

from datetime import timedelta


class LakewardenError(Exception):
    """The base of every error that Lakewarden raises on purpose."""


class TemporaryError(LakewardenError):
    """Trying again after `delay` may succeed."""

    def __init__(self, message: str, *, delay: timedelta = timedelta(seconds=10)) -> None:
        super().__init__(message)
        self.delay = delay


class YieldError(TemporaryError):
    """We stepped back for somebody else, mostly a writer, and committed nothing: the run yields and has not failed."""


class NotYetError(TemporaryError):
    """There is nothing to do now, and may be after `delay`, without anybody's doing: a good ending."""


class PermanentError(LakewardenError):
    """Trying again changes nothing until a person acts; the message says how."""


class UnknownError(LakewardenError):
    """The act may or may not have happened; only the table's timeline can tell."""
