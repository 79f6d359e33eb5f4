"""Watches the application of a session on a standalone cluster. Without it the session lives, and does nothing.

A master ends an application after too many executors that fail, and one that was started again knows none. The driver
does not register again, and says nothing. So the master is asked.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any

import structlog

from lakewarden.executors.edge import edge

log = structlog.get_logger(__name__)

_EVERY_SECONDS = 5.0
_LOOKS = 2
_TIMEOUT_SECONDS = 3.0
_MOST_BYTES = 16 * 2**20


def gone_from(master: Mapping[str, Any], application: str) -> str | None:
    """Return why the application can get no executor any more, as its master tells. None if it can, or if the master
    is not in charge.
    """
    active = master.get("activeapps")
    if master.get("status") != "ALIVE" or not isinstance(active, list):
        return None
    if any(isinstance(one, dict) and one.get("id") == application for one in active):
        return None
    ended = [one for one in master.get("completedapps") or () if isinstance(one, dict)]
    states = [one.get("state") for one in ended if one.get("id") == application]
    if states:
        return f"its master has ended application {application} ({states[-1]}): the logs of its executors say why"
    return f"its master does not know application {application}: it was started again"


def watch(web_ui: str, application: str, end: Callable[[str], object]) -> None:
    """Call `end`, in a thread of its own, once the master has told twice in a row that the application is gone."""
    threading.Thread(target=_watch, args=(web_ui, application, end), name="application", daemon=True).start()


def _watch(web_ui: str, application: str, end: Callable[[str], object]) -> None:
    pause, looks = threading.Event(), 0
    while looks < _LOOKS:
        pause.wait(_EVERY_SECONDS)
        why = None
        with edge("master_not_understood"):
            why = _look(f"{web_ui.rstrip('/')}/json/", application)
        looks = looks + 1 if why is not None else 0
    end(f"the session has no application: {why}")


def _look(address: str, application: str) -> str | None:
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - the profile allows http and https
            told = json.loads(answer.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError, HTTPException) as away:
        log.debug("master_does_not_answer", reason=str(away))
        return None
    return gone_from(told, application) if isinstance(told, dict) else None
