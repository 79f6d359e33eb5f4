"""Errors, named by what the caller does next.

LakewardenError
├─ TemporaryError     try again after `delay`
│   ├─ YieldError     the run yielded before it committed anything; nothing failed
│   └─ NotYetError    there is nothing to do now; the run succeeded
├─ PermanentError     trying again changes nothing; an operator must act
│   └─ UnknownNameError   there is nothing with the name that was asked for
└─ UnknownError       it may have happened; the timeline tells
"""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.model.printable import without_secrets


class LakewardenError(Exception):
    """The base of every error that Lakewarden raises on purpose. Its message may quote a library, and is told without
    the secrets that this process has read.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(without_secrets(message))


class TemporaryError(LakewardenError):
    """Trying again after `delay` may succeed."""

    def __init__(self, message: str, *, delay: timedelta = timedelta(seconds=10)) -> None:
        super().__init__(message)
        self.delay = delay


class YieldError(TemporaryError):
    """A run yielded to a writer or to another service. It committed nothing and has not failed."""


class NotYetError(TemporaryError):
    """There is nothing to do now. After `delay` there may be, although nothing else changes. The run has succeeded."""


class PermanentError(LakewardenError):
    """Trying again changes nothing until an operator acts. The message says how."""


class UnknownNameError(PermanentError):
    """There is nothing with the name that was asked for. The message says where the known names are."""


class UnknownError(LakewardenError):
    """The act may or may not have happened. Only the table's timeline tells."""

    @classmethod
    def unforeseen(cls, bug: Exception) -> UnknownError:
        """Return the error for an exception that no code foresees: what was done before it is not known."""
        return cls(f"unexpected {type(bug).__name__}: {bug}")


def installing(*extras: str) -> str:
    """Return the command that installs extras of Lakewarden. It names no package of a registry: none is released."""
    return f"pip install '.[{','.join(extras)}]' in a clone of Lakewarden"
