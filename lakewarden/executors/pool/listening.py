"""Follows the logs of the workers of a pool, and adds each line to the logs of the runs that it belongs to."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from lakewarden.executors.contract import Assignment
from lakewarden.executors.edge import edge
from lakewarden.executors.pool.run_logs import LogLine, RunLogs
from lakewarden.executors.pool.said import Said, said
from lakewarden.executors.pool.worker_log import LogTail
from lakewarden.planners.model.credentials import hide, names_a_secret
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.settings import Secret

_K = TypeVar("_K")
_V = TypeVar("_V")

_REMEMBERED = 1000
_ROUNDS = 64
"""How often a log is read on until its end is reached, after its worker is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLine:
    """A line of the worker with this name, and the assignment of the run that it names, if it names one."""

    worker: str
    line: LogLine
    about: Assignment | None


class Listening:
    """Follows logs. Any thread may call.

    A line that names a run belongs to that run. A line without a name belongs to all runs that the worker has then: it
    may say why they end.
    """

    def __init__(
        self,
        directory: Path,
        names: Collection[str],
        *,
        logs: RunLogs | None,
        line: Callable[[WorkerLine], None] | None,
        settings: Sequence[Settings] = (),
    ) -> None:
        """Follow the logs of these workers. `settings` are those of the stores and of Spark, for their secrets."""
        self._tails = {name: LogTail(directory / f"{name}.log") for name in names}
        self._logs = logs
        self._line = line
        self._places: OrderedDict[Secret, None] = OrderedDict()
        self._following = {name: threading.Lock() for name in names}
        self._assigning = threading.Lock()  # held for no longer than a look: the control thread waits for it
        self._assigned: OrderedDict[RunId, Assignment] = OrderedDict()
        for one in settings:
            _remember(self._places, dict.fromkeys(_secrets_in(one.model_dump(mode="json"))))

    def assigned(self, assignment: Assignment) -> None:
        """Note that a worker has a run from now on."""
        with self._assigning:
            _remember(self._assigned, {assignment.run: assignment})
            _remember(self._places, dict.fromkeys(_secrets_in(assignment.catalog)))

    def follow(self, runs: Mapping[str, Collection[RunId]]) -> None:
        """Pass on what each worker has written since the last call. `runs` are those that each worker has now.

        A worker with its last lines on their way in another thread is left out.
        """
        for name, following in self._following.items():
            if following.acquire(blocking=False):
                try:
                    with edge("worker_log_not_followed", worker=name):
                        self._pass_on(name, self._tails[name].lines(), runs.get(name, ()))
                finally:
                    following.release()

    def finish(self, name: str, runs: Collection[RunId], reason: str) -> None:
        """Pass on the last lines of a worker that is gone with these runs, and add the reason to their logs."""
        with self._following[name]:
            with edge("worker_log_not_followed", worker=name):
                for _ in range(_ROUNDS):
                    lines = self._tails[name].lines()
                    if not lines:
                        break
                    self._pass_on(name, lines, runs)
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            for run in runs:
                self._add(run, [LogLine(at=now, source="daemon", level="warning", message=reason)])

    def _pass_on(self, name: str, lines: Sequence[str], runs: Collection[RunId]) -> None:
        if not lines:
            return
        self._read_secrets()
        found = [said(line) for line in lines]
        by_run: dict[RunId, list[LogLine]] = {}
        for one in found:
            for run in self._owners(one, runs):
                by_run.setdefault(run, []).append(one.line)
        for run, of_run in by_run.items():
            self._add(run, of_run)
        if self._line is None:
            return
        for one in found:
            about = None if one.run is None else self._assignment(one.run)
            self._line(WorkerLine(worker=name, line=one.line, about=about))

    def _add(self, run: RunId, lines: Sequence[LogLine]) -> None:
        if self._logs is not None:
            self._logs.add(run, lines)

    def _owners(self, one: Said, runs: Collection[RunId]) -> Collection[RunId]:
        if one.run is None:
            return runs
        return [] if self._assignment(one.run) is None else [one.run]

    def _assignment(self, run: RunId) -> Assignment | None:
        with self._assigning:
            return self._assigned.get(run)

    def _read_secrets(self) -> None:
        """Read the secrets as they are now, so that they are hidden: a worker reads one for each new connection."""
        with self._assigning:
            places = list(self._places)
        for place in places:
            with contextlib.suppress(PermanentError):  # the secret is missing, so no library has it
                place.value()


def _remember(known: OrderedDict[_K, _V], more: Mapping[_K, _V]) -> None:
    for key, value in more.items():
        known[key] = value
        known.move_to_end(key)
    while len(known) > _REMEMBERED:
        known.popitem(last=False)


def _secrets_in(value: Any, *, secret: bool = False) -> Iterator[Secret]:
    """Yield the places of secrets in settings as JSON. What stands there behind the name of a secret is hidden."""
    match value:
        case {"env": str() | None as env, "file": str() | None as file}:
            yield Secret.model_construct(env=env, file=Path(file or ""))  # even if it is none, nothing is raised
        case dict():
            for key, one in value.items():
                yield from _secrets_in(one, secret=names_a_secret(str(key)))
        case list():
            for one in value:
                yield from _secrets_in(one, secret=secret)
        case str() if secret:
            hide(value)
