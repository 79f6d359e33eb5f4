"""The death of the executors of a run: whether they can change nothing any more, and why. Pure.

The invariant that protects a table: an instant is freed, and a run is settled, only when no executor of the run can
write any more. For a run in its JVM alone that is the death of the JVM. Executors on other machines outlive their
driver, so for them it is the driver's death and one of two things. The cluster says that they have ended, or they have
had the time in which they end by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from lakewarden.executors.application import ClusterApplication
from lakewarden.planners.settings import format_duration, shown


class ClusterWord(StrEnum):
    """What a cluster says about an application."""

    ENDED = "ended"
    """The application has ended, every worker of the cluster has answered, and none has an executor of it."""
    AT_WORK = "at work"
    """A worker of the cluster has an executor of it."""
    UNKNOWN = "unknown"
    """The cluster does not answer, does not know the application, or cannot say what all its workers do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterAnswer:
    """What a cluster says about an application, and the sentence for people."""

    word: ClusterWord
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DeathEvidence:
    """What is known of the executors of a run.

    `driver_gone_for` is how long its JVM has certainly been gone: its process is proved dead, or the right of its owner
    to act is over, and its workers with it. None: it may live. `application` is None if the JVM has no executors
    beside it.
    """

    driver_gone_for: timedelta | None
    application: ClusterApplication | None = None
    cluster: ClusterAnswer | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeathProof:
    """Whether the executors of a run can change nothing any more, and why."""

    proved: bool
    reason: str


def judged_death(evidence: DeathEvidence) -> DeathProof:
    """Return whether the executors of a run certainly write no more."""
    application, gone_for = evidence.application, evidence.driver_gone_for
    if gone_for is None:
        return DeathProof(proved=False, reason="its JVM may still run")
    if application is None:
        return DeathProof(proved=True, reason="its JVM is gone")
    named = f"application {shown(application.application)} on {shown(application.master)}"
    word = evidence.cluster.word if evidence.cluster is not None else ClusterWord.UNKNOWN
    reason = evidence.cluster.reason if evidence.cluster is not None else "the cluster has not answered yet"
    match word:
        case ClusterWord.ENDED:
            return DeathProof(proved=True, reason=f"its JVM is gone, and {named} has ended: {reason}")
        case ClusterWord.AT_WORK:
            return DeathProof(proved=False, reason=f"its JVM is gone, but {named} has not ended: {reason}")
        case ClusterWord.UNKNOWN:
            pass
        case _:
            assert_never(word)
    limit = timedelta(seconds=application.executors_end_within)
    if gone_for >= limit:
        passed = f"its executors had the {format_duration(limit)} in which they end without it"
        return DeathProof(proved=True, reason=f"its JVM is gone, and {passed} ({reason})")
    left = f"its executors on {shown(application.master)} end without it within {format_duration(limit)}"
    return DeathProof(proved=False, reason=f"its JVM is gone, and {left}, which are not over ({reason})")
