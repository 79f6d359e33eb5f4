"""The one decision by which an owner counts as dead: for adopted runs, for lost runs, and for instants that they left.

`rules/executor_death.py` has the rule. Here are the facts: the processes of this machine, the time, and the cluster.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

import structlog

from lakewarden.executors.application import ClusterApplication
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.settings import shown
from lakewarden.service.model.run import ExecutorNames
from lakewarden.service.rules.executor_death import (
    ClusterAnswer,
    ClusterWord,
    DeathEvidence,
    DeathProof,
    judged_death,
)
from lakewarden.service.state.readers.threads import Threads

# What a standalone cluster of Spark says about an application: its master, and each of its workers.
#
# A master keeps the applications that have ended in a list with a limit, and a master that was started again knows none
# of them. A worker that does not answer may have executors. In all these cases the answer is unknown. Source:
# `JsonProtocol` and `MasterWebUI` of org.apache.spark.deploy (Spark 3.5.9).

_MOST_BYTES = 16 * 2**20
"""A worker lists a thousand ended executors with their whole commands, of two kilobytes each."""

_MOST_WORKERS = 2000
_AT_ONCE = 16 * 2**10
_SECONDS = 5.0
_ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})


def page_of_cluster(url: str) -> Mapping[str, Any]:
    """Return the JSON object at an address of a cluster. Raises TemporaryError if there is none within five seconds."""
    give_up = time.monotonic() + _SECONDS
    content = b""
    try:
        request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - from the settings
        with urllib.request.build_opener(_NoRedirects()).open(request, timeout=_SECONDS) as answer:
            while part := answer.read1(_AT_ONCE):
                content += part
                if len(content) > _MOST_BYTES:
                    raise ValueError(f"its answer has more than {_MOST_BYTES} bytes")
                if time.monotonic() > give_up:
                    raise TimeoutError(f"its answer took longer than {_SECONDS:g} s")
        page = json.loads(content)
    except (OSError, HTTPException, ValueError, RecursionError) as away:
        raise TemporaryError(f"{url} does not answer as it should: {getattr(away, 'reason', None) or away}") from away
    if not isinstance(page, dict):
        raise TemporaryError(f"{url} does not answer as it should: its answer is not a JSON object")
    return page


def said_by_cluster(application: ClusterApplication, ask: Callable[[str], Mapping[str, Any]]) -> ClusterAnswer:
    """Return what the master and its workers say. `ask` returns the JSON object at an address, or raises
    TemporaryError.
    """
    if application.web_ui is None:
        return _unknown("no master_ui is set, so its master is not asked")
    try:
        master = ask(f"{application.web_ui.rstrip('/')}/json/")
    except LakewardenError as away:
        return _unknown(str(away))
    if master.get("status") != "ALIVE":
        return _unknown(f"its master says that it is {shown(master.get('status'))}, and not ALIVE")
    answer = _look_at_workers(_entries(master, "workers"), application.application, ask)
    if answer is not None and answer.word is ClusterWord.AT_WORK:
        return answer
    states = [
        entry.get("state") for entry in _entries(master, "completedapps") if entry.get("id") == application.application
    ]
    if any(entry.get("id") == application.application for entry in _entries(master, "activeapps")):
        return _unknown("its master says that the application is active")
    if not states:
        return _unknown("its master does not know the application")
    if states[-1] not in _ENDED:
        return _unknown(f"its master says that the application is {shown(states[-1])}")
    return answer or ClusterAnswer(
        word=ClusterWord.ENDED, reason=f"its master says {states[-1]}, and no worker has an executor of it"
    )


def _look_at_workers(
    workers: Sequence[Mapping[str, Any]], application: str, ask: Callable[[str], Mapping[str, Any]]
) -> ClusterAnswer | None:
    """Return why the workers do not say that the application has ended, or None if each of them says so."""
    if len(workers) > _MOST_WORKERS:
        return _unknown(f"its master lists {len(workers)} workers, more than {_MOST_WORKERS}")
    doubt: ClusterAnswer | None = None
    for worker in workers:
        named, where = shown(worker.get("id")), worker.get("webuiaddress")
        if worker.get("state") == "DEAD" or not isinstance(where, str) or not where.startswith(("http://", "https://")):
            doubt = _unknown(f"worker {named} is {shown(worker.get('state'))}, and its executors may live")
            continue
        try:
            worker_state = ask(f"{where.rstrip('/')}/json/")
        except LakewardenError as away:
            doubt = _unknown(f"worker {named}: {away}")
            continue
        if worker_state.get("id") != worker.get("id") or not isinstance(worker_state.get("executors"), list):
            doubt = _unknown(f"{shown(where)} is not worker {named}")
        elif any(entry.get("appid") == application for entry in _entries(worker_state, "executors")):
            return ClusterAnswer(word=ClusterWord.AT_WORK, reason=f"worker {named} has an executor of it")
    return doubt


def end_application(application: ClusterApplication) -> None:
    """Ask the master to end an application with a driver that is gone. Its workers then kill its executors.

    Best effort: only what the cluster says afterwards counts. `spark.ui.killEnabled=false` forbids it.
    """
    if application.web_ui is None:
        return
    asked_for = f"id={quote(application.application, safe='')}&terminate=true"
    request = urllib.request.Request(  # noqa: S310 - the profile allows http and https alone
        f"{application.web_ui.rstrip('/')}/app/kill/?{asked_for}", data=b"", method="POST"
    )
    try:
        with urllib.request.build_opener(_NoRedirects()).open(request, timeout=_SECONDS):
            pass
    except (OSError, ValueError):  # it answers with a redirect to its first page
        pass


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: object) -> None:
        """Follow no redirect."""


def _entries(document: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    entries = document.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _unknown(reason: str) -> ClusterAnswer:
    return ClusterAnswer(word=ClusterWord.UNKNOWN, reason=reason)


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
                cluster=self._answer_of(names.application, application),
            )
        )

    def _gone_since(self, executor: str | None, death_at: float | None) -> float | None:
        now = self._clock.monotonic()
        times = [] if death_at is None or death_at > now else [death_at]
        if executor is not None and _is_proved_dead(executor):
            times.append(self._dead_since.setdefault(executor, now))
            for forgotten in list(self._dead_since)[:-_REMEMBERED]:
                del self._dead_since[forgotten]
        return min(times, default=None)

    def _answer_of(self, key: str, application: ClusterApplication) -> ClusterAnswer | None:
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
    answer = said_by_cluster(application, ask)
    if answer.word is not ClusterWord.ENDED:
        end(application)
    return answer


def _is_proved_dead(executor: str) -> bool:
    """Whether the JVM with this name (`ProcessIdentity.to_text`) certainly runs no more."""
    try:
        return ProcessIdentity.from_text(executor).is_proved_dead()
    except ValueError:
        return False
