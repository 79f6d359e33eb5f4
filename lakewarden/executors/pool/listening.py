"""Follows the logs of the workers of a pool, and adds each line to the logs of the runs that it belongs to."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lakewarden.executors.contract import Assignment
from lakewarden.executors.pool.run_logs import LogLine, RunLogs
from lakewarden.executors.pool.said import Said, said
from lakewarden.executors.pool.worker_log import LogTail
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.storage.settings import StoreSettings

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
        storage: Sequence[StoreSettings] = (),
    ) -> None:
        self._tails = {name: LogTail(directory / f"{name}.log") for name in names}
        self._logs = logs
        self._line = line
        self._storage = storage
        self._secrets: tuple[str, ...] | None = None
        self._following = {name: threading.Lock() for name in names}
        self._assigning = threading.Lock()  # held for no longer than a look: the control thread waits for it
        self._assigned: OrderedDict[RunId, Assignment] = OrderedDict()

    def assigned(self, assignment: Assignment) -> None:
        """Note that a worker has a run from now on."""
        with self._assigning:
            self._assigned[assignment.run] = assignment
            while len(self._assigned) > _REMEMBERED:
                self._assigned.popitem(last=False)

    def follow(self, runs: Mapping[str, Collection[RunId]]) -> None:
        """Pass on what each worker has written since the last call. `runs` are those that each worker has now.

        A worker with its last lines on their way in another thread is left out.
        """
        for name, following in self._following.items():
            if following.acquire(blocking=False):
                try:
                    self._pass_on(name, self._tails[name].lines(), runs.get(name, ()))
                finally:
                    following.release()

    def finish(self, name: str, runs: Collection[RunId], reason: str) -> None:
        """Pass on the last lines of a worker that is gone with these runs, and add the reason to their logs."""
        with self._following[name]:
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
        found = [said(line, secrets=self._of_stores()) for line in lines]
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

    def _of_stores(self) -> tuple[str, ...]:
        """Return the secrets of the stores, which libraries may write into their messages."""
        if self._secrets is None:
            found = []
            for store in self._storage:
                try:
                    values = store.hadoop_properties()
                except PermanentError:  # the secret is missing, so no library has it
                    continue
                found += [value for key, value in values.items() if _is_secret(key)]
            self._secrets = tuple(found)
        return self._secrets


def _is_secret(key: str) -> bool:
    named = key.lower()
    words = ("secret", "key", "token", "password", "credential")
    return any(word in named for word in words) and not named.endswith("provider")
