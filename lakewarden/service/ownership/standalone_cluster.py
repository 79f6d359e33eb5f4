"""What a standalone cluster of Spark says about an application: its master, and each of its workers.

A master keeps the applications that have ended in a list with a limit, and a master that was started again knows none
of them. A worker that does not answer may have executors. In all these cases the answer is unknown.
Source: `JsonProtocol` and `MasterWebUI` of org.apache.spark.deploy (Spark 3.5.9).
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from lakewarden.executors.application import ClusterApplication
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.settings import shown
from lakewarden.service.rules.executor_death import ClusterAnswer, ClusterWord

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
        raise TemporaryError(f"{url} does not answer as it should: its answer is no JSON object")
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
    found = _look_at_workers(_entries(master, "workers"), application.application, ask)
    if found is not None and found.word is ClusterWord.AT_WORK:
        return found
    states = [one.get("state") for one in _entries(master, "completedapps") if one.get("id") == application.application]
    if any(one.get("id") == application.application for one in _entries(master, "activeapps")):
        return _unknown("its master says that the application is active")
    if not states:
        return _unknown("its master does not know the application")
    if states[-1] not in _ENDED:
        return _unknown(f"its master says that the application is {shown(states[-1])}")
    return found or ClusterAnswer(
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
            told = ask(f"{where.rstrip('/')}/json/")
        except LakewardenError as away:
            doubt = _unknown(f"worker {named}: {away}")
            continue
        if told.get("id") != worker.get("id") or not isinstance(told.get("executors"), list):
            doubt = _unknown(f"{shown(where)} is not worker {named}")
        elif any(one.get("appid") == application for one in _entries(told, "executors")):
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


def _entries(said: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    found = said.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _unknown(reason: str) -> ClusterAnswer:
    return ClusterAnswer(word=ClusterWord.UNKNOWN, reason=reason)
