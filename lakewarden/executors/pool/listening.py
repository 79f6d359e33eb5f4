"""Follows the logs of the workers of a pool. It adds each line, without secrets, to the logs of its runs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from lakewarden.executors.contract import Assignment
from lakewarden.executors.edge import edge
from lakewarden.executors.pool.process import LogTail
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.printable import REDACTED, hide, names_a_secret, printable, without_credentials
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.settings import Secret

# The logs of runs on the disk of the daemon that carried them out: the beginning and the end of each.

LONGEST_LINE = 16_000
"""The most characters of the message of a line."""

MOST_LOGS = 100_000
"""The most logs, however short they are."""

_HEAD, _OLDER, _TAIL = "head", "older", "tail"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_OPEN = 512
_FOLDERS = 256
_END = 128 * 2**10
"""How many bytes of the end of a file `last` reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """One line of the log of a run. `number` counts from 1: a number that is left out is a line that was deleted.

    `source` is `worker`, `jvm` or `daemon`. `at` is as the source wrote it, or None if it wrote none.
    """

    number: int = 0
    at: str | None = None
    source: str = "worker"
    level: str | None = None
    logger: str | None = None
    message: str = ""
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Written:
    number: int
    head: int
    tail: int


class RunLogs:
    """Keeps lines by run. Any thread may call. A disk that is full costs lines, and nothing else.

    The log of a run has three files: its first lines, and the last ones in two files that take turns. So the beginning
    and the end are kept, and each log has at most `each` bytes and one line.
    """

    def __init__(self, folder: Path, *, each: int, total: int) -> None:
        self._folder = folder
        self._each = each
        self._total = total
        self._lock = threading.Lock()
        self._open_logs: OrderedDict[RunId, _Written] = OrderedDict()
        self._since_pruned = 0
        self._pruning = threading.Lock()

    def add(self, run: RunId, lines: Sequence[LogLine]) -> None:
        """Add lines to the log of a run."""
        if not lines or _NAME.fullmatch(run) is None:
            return
        with self._lock, contextlib.suppress(OSError):
            written = self._open_logs.pop(run, None) or self._extent(run)
            self._open_logs[run] = written
            while len(self._open_logs) > _OPEN:
                self._open_logs.popitem(last=False)
            self._write(run, written, lines)
        if self._since_pruned > self._total // 8 and not self._pruning.locked():
            self._since_pruned = 0
            threading.Thread(target=self.prune, name="run-logs", daemon=True).start()

    def lines(self, run: RunId, *, after: int = 0, limit: int) -> Sequence[LogLine] | None:
        """Return lines with numbers above `after`, the oldest first. None if there is no log of the run here."""
        if _NAME.fullmatch(run) is None:
            return None
        by_number: dict[int, LogLine] = {}
        there = False
        for part in (_TAIL, _OLDER, _HEAD):  # in the meantime the tail may become the older part, not the reverse
            with contextlib.suppress(OSError):
                content = self._file(run, part).read_bytes()
                there = True
                by_number |= {line.number: line for line in _parsed(content) if line.number > after}
        return [by_number[number] for number in sorted(by_number)[:limit]] if there else None

    def last(self, run: RunId, *, limit: int) -> Sequence[LogLine] | None:
        """Return the last lines, the oldest first. None if there is no log of the run here.

        Only the end of each file is read, so a log of any length costs the same. Very long lines are fewer than
        `limit`.
        """
        if _NAME.fullmatch(run) is None:
            return None
        lines: dict[int, LogLine] = {}
        there = False
        for part in (_TAIL, _OLDER, _HEAD):
            with contextlib.suppress(OSError):
                content, whole = _end_of(self._file(run, part))
                there = True
                lines |= {line.number: line for line in _parsed(content)}
                if len(lines) >= limit or not whole:
                    break
        return [lines[number] for number in sorted(lines)[-limit:]] if there else None

    def prune(self, before: datetime | None = None) -> int:
        """Delete logs without a line since `before`, and the oldest beyond the total size. Return how many."""
        with self._pruning:
            self._since_pruned = 0
            horizon = float("-inf") if before is None else before.timestamp()
            logs = sorted(self._sizes().items(), key=lambda item: item[1][0], reverse=True)
            kept, deleted = 0, 0
            for number, (run, (newest, size)) in enumerate(logs):
                kept += size
                if newest < horizon or kept > self._total or number >= MOST_LOGS:
                    self._delete(RunId(run))
                    deleted += 1
            return deleted

    def _write(self, run: RunId, written: _Written, lines: Sequence[LogLine]) -> None:
        self._file(run, _HEAD).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for part, content in self._parts(run, written, lines):
            with self._file(run, part).open("ab") as log:
                log.write(content)
            self._since_pruned += len(content)

    def _parts(self, run: RunId, written: _Written, lines: Sequence[LogLine]) -> Iterator[tuple[str, bytes]]:
        """Yield what is added to each file, in order. Between two parts the tail may become the older part."""
        part, content = _HEAD if written.head < self._each // 2 else _TAIL, bytearray()
        for line in lines:
            written.number += 1
            encoded = _encoded(replace(line, number=written.number, message=_short(line.message)))
            content += encoded
            if part == _HEAD:
                written.head += len(encoded)
                full = written.head >= self._each // 2
            else:
                written.tail += len(encoded)
                full = written.tail >= self._each // 4
            if full:
                yield part, bytes(content)
                if part == _TAIL:
                    self._file(run, _TAIL).replace(self._file(run, _OLDER))
                    written.tail = 0
                part, content = _TAIL, bytearray()
        if content:
            yield part, bytes(content)

    def _extent(self, run: RunId) -> _Written:
        """Return how far the log of a run goes, which an earlier daemon may have written."""
        number, sizes = 0, {}
        for part in (_HEAD, _OLDER, _TAIL):
            try:
                content = self._file(run, part).read_bytes()
            except OSError:
                content = b""
            sizes[part] = len(content)
            number = max([number, *(line.number for line in _parsed(content))])
        return _Written(number=number, head=sizes[_HEAD], tail=sizes[_TAIL])

    def _sizes(self) -> dict[str, tuple[float, int]]:
        """Return when each log was last written, and its size."""
        sizes: dict[str, tuple[float, int]] = {}
        for folder, _, names in os.walk(self._folder):  # it passes over a folder that is gone meanwhile
            for name in names:
                file = Path(folder, name)
                with contextlib.suppress(OSError):
                    status = file.stat()
                    newest, size = sizes.get(file.stem, (0.0, 0))
                    sizes[file.stem] = max(newest, status.st_mtime), size + status.st_size
        return sizes

    def _delete(self, run: RunId) -> None:
        with self._lock:
            self._open_logs.pop(run, None)
            for part in (_HEAD, _OLDER, _TAIL):
                with contextlib.suppress(OSError):
                    self._file(run, part).unlink(missing_ok=True)

    def _file(self, run: RunId, part: str) -> Path:
        return self._folder / f"{zlib.crc32(run.encode()) % _FOLDERS:02x}" / f"{run}.{part}"


def _end_of(file: Path) -> tuple[bytes, bool]:
    """Return the last whole lines of a file, and whether they are all of them."""
    with file.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        begin = log.seek(max(0, size - _END))
        content = log.read(_END)
    return (content, True) if begin == 0 else (content.partition(b"\n")[2], False)


def _short(message: str) -> str:
    return message if len(message) <= LONGEST_LINE else f"{message[:LONGEST_LINE]} ... (the rest is left out)"


def _encoded(line: LogLine) -> bytes:
    fields = {name: value for name, value in asdict(line).items() if value not in (None, {})}
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _parsed(content: bytes) -> Iterator[LogLine]:
    """Yield the whole lines. The last one may be half written, and a power cut may leave anything."""
    for text in content.split(b"\n"):
        with contextlib.suppress(ValueError, TypeError):
            entry = json.loads(text)
            if isinstance(entry, dict) and isinstance(entry.get("number"), int):
                yield LogLine(**entry)


# What a worker and its JVM wrote to their common log, line by line, with the run that it names. Pure.

_KNOWN = frozenset({"ts", "level", "logger", "event", "message", "exception", "source", "run"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One line. `run` is the run that it names, if it names one."""

    line: LogLine
    run: RunId | None


def message_of(text: str) -> Message:
    """Return what a line of a worker's log says, without credentials.

    The worker writes JSON with structlog. Anything else is a line of the JVM, or of another program that wrote to
    standard output or error.
    """
    entry = _object(text)
    if entry is None:
        return Message(line=LogLine(source="jvm", message=_clean(text)), run=None)
    message = str(entry.get("message") or entry.get("event") or "")
    if trace := str(entry.get("exception") or "").strip():
        message = f"{message}\n{trace}"
    return Message(
        line=LogLine(
            at=_text(entry, "ts"),
            source="jvm" if entry.get("source") == "jvm" else "worker",
            level=(_text(entry, "level") or "").lower() or None,
            logger=_text(entry, "logger"),
            message=_clean(message),
            fields={
                printable(str(name)): REDACTED if names_a_secret(name) else _clean(str(value))
                for name, value in entry.items()
                if name not in _KNOWN and value is not None
            },
        ),
        run=RunId(run) if (run := _text(entry, "run")) else None,
    )


def _object(text: str) -> Mapping[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and ("event" in entry or "message" in entry) else None


def _text(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    return printable(value) if isinstance(value, str) and value else None


def _clean(text: str) -> str:
    return printable(without_credentials(text[: LONGEST_LINE + 1]), most=LONGEST_LINE + 1, lines=True)


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
        for setting in settings:
            _remember(self._places, dict.fromkeys(_secrets_in(setting.model_dump(mode="json"))))

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
        messages = [message_of(line) for line in lines]
        by_run: dict[RunId, list[LogLine]] = {}
        for message in messages:
            for run in self._owners(message, runs):
                by_run.setdefault(run, []).append(message.line)
        for run, of_run in by_run.items():
            self._add(run, of_run)
        if self._line is None:
            return
        for message in messages:
            about = None if message.run is None else self._assignment(message.run)
            self._line(WorkerLine(worker=name, line=message.line, about=about))

    def _add(self, run: RunId, lines: Sequence[LogLine]) -> None:
        if self._logs is not None:
            self._logs.add(run, lines)

    def _owners(self, message: Message, runs: Collection[RunId]) -> Collection[RunId]:
        if message.run is None:
            return runs
        return [] if self._assignment(message.run) is None else [message.run]

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


def _remember(memory: OrderedDict[_K, _V], more: Mapping[_K, _V]) -> None:
    for key, value in more.items():
        memory[key] = value
        memory.move_to_end(key)
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)


def _secrets_in(value: Any, *, secret: bool = False) -> Iterator[Secret]:
    """Yield the places of secrets in settings as JSON. What stands there behind the name of a secret is hidden."""
    match value:
        case {"env": str() | None as env, "file": str() | None as file}:
            yield Secret.model_construct(env=env, file=Path(file or ""))  # even if it is none, nothing is raised
        case dict():
            for key, member in value.items():
                yield from _secrets_in(member, secret=names_a_secret(str(key)))
        case list():
            for member in value:
                yield from _secrets_in(member, secret=secret)
        case str() if secret:
            hide(value)
