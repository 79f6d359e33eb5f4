"""The one decision by which an owner counts as dead: for adopted runs, for lost runs, and for instants that they left.

`rules/executor_death.py` has the rule. Here are the facts: the processes of this machine, the time, and the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import structlog

from lakewarden.executors.application import ClusterApplication, ClusterKind
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.planners.model.clock import Clock
from lakewarden.service.model.run import ExecutorNames
from lakewarden.service.ownership.standalone_cluster import end_application, page_of_cluster, said_by_cluster
from lakewarden.service.rules.executor_death import (
    ClusterAnswer,
    ClusterWord,
    DeathEvidence,
    DeathProof,
    judged_death,
)
from lakewarden.service.state.readers.threads import Threads

log = structlog.get_logger(__name__)

ASK_AGAIN_SECONDS = 1.0
"""A cluster is asked again after this time, as long as it has not said that the application has ended."""

_REMEMBERED = 200


@dataclass(kw_only=True, slots=True)
class _Asking:
    """The questions about one application: the last answer, and the reading in flight."""

    answer: ClusterAnswer | None = None
    asked_at: float = float("-inf")
    reading: Future[ClusterAnswer] | None = None


class ExecutorDeaths:
    """Knows which executors are certainly dead. Only the control thread calls it, and it never waits."""

    def __init__(
        self,
        *,
        clock: Clock,
        threads: Threads,
        ask: Callable[[str], Mapping[str, Any]] = page_of_cluster,
        end: Callable[[ClusterApplication], None] = end_application,
    ) -> None:
        """`ask` returns the JSON object at an address of a cluster. `end` asks a cluster to end an application."""
        self._ask = ask
        self._clock = clock
        self._threads = threads
        self._end = end
        self._dead_since: dict[str, float] = {}
        self._askings: dict[str, _Asking] = {}

    def proof(self, names: ExecutorNames, *, gone_since: float | None = None) -> DeathProof:
        """Return whether the executors with these names can change nothing any more, and why.

        `gone_since` is the moment at which their JVM was gone, as the caller knows it without looking at the process:
        its group was reaped, or the right of its owner to act was over, and with it the life of its workers.
        """
        since = self._gone_since(names.executor, gone_since)
        if names.application is None or since is None:
            gone_for = None if since is None else timedelta(seconds=self._clock.monotonic() - since)
            return judged_death(DeathEvidence(driver_gone_for=gone_for))
        application = ClusterApplication.of_row(names.application)
        return judged_death(
            DeathEvidence(
                driver_gone_for=timedelta(seconds=self._clock.monotonic() - since),
                application=application,
                cluster=self._said(names.application, application),
            )
        )

    def _gone_since(self, executor: str | None, told: float | None) -> float | None:
        now = self._clock.monotonic()
        known = [] if told is None or told > now else [told]
        if executor is not None and _is_proved_dead(executor):
            known.append(self._dead_since.setdefault(executor, now))
            for forgotten in list(self._dead_since)[:-_REMEMBERED]:
                del self._dead_since[forgotten]
        return min(known, default=None)

    def _said(self, key: str, application: ClusterApplication) -> ClusterAnswer | None:
        """Return the last answer of the cluster, and ask it again if that is due."""
        now, asking = self._clock.monotonic(), self._askings.setdefault(key, _Asking())
        for forgotten in list(self._askings)[:-_REMEMBERED]:
            del self._askings[forgotten]
        ended = asking.answer is not None and asking.answer.word is ClusterWord.ENDED
        if asking.reading is None and not ended and now - asking.asked_at >= ASK_AGAIN_SECONDS:
            asking.asked_at = now
            asking.reading = self._threads.submit(
                partial(_asked_and_ended, application, self._ask, self._end), place=application.master
            )
        if asking.reading is not None and asking.reading.done():
            reading, asking.reading = asking.reading, None
            before, asking.answer = asking.answer, reading.result()
            if asking.answer != before:
                log.info(
                    "cluster_asked",
                    application=application.application,
                    master=application.master,
                    answer=asking.answer.word.value,
                    reason=asking.answer.reason,
                )
        return asking.answer


def _asked_and_ended(
    application: ClusterApplication,
    ask: Callable[[str], Mapping[str, Any]],
    end: Callable[[ClusterApplication], None],
) -> ClusterAnswer:
    """Return what the cluster says. If that is not that the application has ended, ask the cluster to end it.

    Its driver is certainly gone, so nothing of use is ended.
    """
    match application.kind:
        case ClusterKind.STANDALONE:
            said = said_by_cluster(application, ask)
    if said.word is not ClusterWord.ENDED:
        end(application)
    return said


def _is_proved_dead(executor: str) -> bool:
    """Whether the JVM with this name (`ProcessIdentity.to_text`) certainly runs no more."""
    try:
        return ProcessIdentity.from_text(executor).is_proved_dead()
    except ValueError:
        return False
