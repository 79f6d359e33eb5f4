"""The API keys that count now: those of the store, and those of the configuration. They are read again and again."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from lakewarden.executors.edge import edge
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.access import KeySettings
from lakewarden.service.model.access import SHORTEST_KEY, Caller, KeyRow, digest_of

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store

log = structlog.get_logger(__name__)

REFRESH = timedelta(seconds=2)
"""How long a new key waits until it counts, and a revoked key goes on to count."""

PUBLIC_KEYS = frozenset(
    FORMAT.commit_hook.key.well_known
    for FORMAT in FORMATS.values()
    if FORMAT.commit_hook is not None and FORMAT.commit_hook.key is not None
)
"""The default keys of the senders of hooks. They are public."""


class ApiKeys:
    """Knows the caller of each key by the hash of the key. Any thread may ask.

    If the store does not answer, the keys that were read last go on to count.
    """

    def __init__(self, *, store: Store, clock: Clock, configured: Collection[KeySettings] = ()) -> None:
        """Read the keys. Raises TemporaryError if the store is away."""
        self._store = store
        self._clock = clock
        self._configured = tuple(configured)
        self._wrong: dict[int, str] = {}
        self._stored: Mapping[str, KeyRow] = {}
        self._secrets: Mapping[str, Caller] = {}
        self._read()

    def caller(self, key: bytes) -> Caller | None:
        """Return the caller that a key identifies, or None if the key does not count."""
        digest = digest_of(key)  # the digests are compared, so the time of a comparison tells nothing about a key
        row = self._stored.get(digest)
        if row is not None:
            return row.caller if row.counts(self._clock.now()) else None
        return self._secrets.get(digest)

    def count(self) -> int:
        """Return how many keys count now."""
        now = self._clock.now()
        return sum(row.counts(now) for row in self._stored.values()) + len(self._secrets)

    def refresh(self) -> None:
        """Read all keys again."""
        try:
            self._read()
        except LakewardenError as error:
            log.warning("api_keys_not_read", error=str(error))

    @contextmanager
    def kept_fresh(self, *, every: timedelta = REFRESH) -> Iterator[None]:
        """Read all keys again and again, on a thread of its own, inside the `with` block."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(every.total_seconds()):
                with edge("api_keys_not_read"):
                    self.refresh()

        threading.Thread(target=run, name="api-keys", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _read(self) -> None:
        self._secrets = self._from_secrets()
        self._stored = {row.digest: row for row in self._store.api_keys()}

    def _from_secrets(self) -> Mapping[str, Caller]:
        callers: dict[str, Caller] = {}
        for number, settings in enumerate(self._configured):
            try:
                digest = usable(settings.key.value())
                if digest in callers:
                    raise PermanentError(f"the key is that of {callers[digest].name}, too: only the first one counts")
            except PermanentError as wrong:
                self._tell(number, settings.name, str(wrong))
                continue
            self._wrong.pop(number, None)
            callers[digest] = Caller(name=settings.name, role=settings.role, tables=settings.tables, key=settings.place)
        return callers

    def _tell(self, number: int, name: str, reason: str) -> None:
        """Log a key that does not count, once for each reason."""
        if self._wrong.get(number) != reason:
            self._wrong[number] = reason
            log.warning("api_key_refused", name=name, reason=reason)


def usable(key: str) -> str:
    """Return the digest of a key of the configuration. Raises PermanentError if it is too short, or public."""
    if key in PUBLIC_KEYS:
        raise PermanentError("the key is a public default: set another one")
    if len(key) < SHORTEST_KEY:
        raise PermanentError(f"the key has fewer than {SHORTEST_KEY} characters: set a longer one")
    return digest_of(key.encode())
