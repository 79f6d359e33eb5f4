"""Looks at the configuration file from time to time, and has it read again after it has changed.

A ConfigMap that is mounted in a pod changes without a signal.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from lakewarden.executors.edge import edge

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenFile:
    """A file as it was seen: `content` tells one content from another one, and is None if it could not be read."""

    file: Path
    content: str | None

    @classmethod
    def of(cls, file: Path) -> SeenFile:
        """Return a file as it is now."""
        try:
            with file.open("rb") as content:
                return cls(file=file, content=hashlib.file_digest(content, "sha256").hexdigest())
        except OSError:
            return cls(file=file, content=None)


class ConfigurationWatch:
    """Has a file read again once its new content has been the same at two looks. A file that is being written is not
    read, and a content that was refused is not read again.
    """

    def __init__(self, seen: SeenFile, *, reload: Callable[[], object]) -> None:
        """`seen` is the file as it was before the daemon read it."""
        self._reload = reload
        self._read = self._seen = seen

    def look(self) -> None:
        """Look at the file once. A file that is gone, or cannot be read, changes nothing."""
        before, self._seen = self._seen, SeenFile.of(self._seen.file)
        if self._seen.content is None or self._seen == self._read or self._seen != before:
            return
        self._read = self._seen
        log.info("configuration_changed", file=str(self._seen.file))
        self._reload()


@contextmanager
def watched(seen: SeenFile, reload: Callable[[], object], *, every: timedelta) -> Iterator[None]:
    """Look at the file every so often, inside the `with` block. Never, if `every` is zero."""
    if not every:
        yield
        return
    watch = ConfigurationWatch(seen, reload=reload)
    ended = threading.Event()
    thread = threading.Thread(target=_look, args=(watch, ended, every), name="configuration", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _look(watch: ConfigurationWatch, ended: threading.Event, every: timedelta) -> None:
    while not ended.wait(every.total_seconds()):
        with edge("configuration_watch_failed"):  # the daemon goes on with the configuration that it has
            watch.look()
