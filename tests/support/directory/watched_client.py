"""A client of an object store that tells a test before and after each request that changes something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.storages import open_client
from tests.support.object_stores.s3_server import S3Server

_CHANGES = frozenset({"put", "copy", "delete"})


class WatchedClient:
    """Passes every request on."""

    def __init__(self, client: Any, tell: Callable[[str], None]) -> None:
        self._client, self._tell = client, tell

    def __getattr__(self, name: str) -> Any:
        request = getattr(self._client, name)
        if name not in _CHANGES:
            return request

        def told(*arguments: Any, **options: Any) -> Any:
            self._tell(f"before {name} {arguments[0]}")
            answer = request(*arguments, **options)
            self._tell(f"after {name} {arguments[0]}")
            return answer

        return told


def watched_storage(server: S3Server, tell: Callable[[str], None]) -> ObjectStorage:
    """Return the storage of a server. `tell` may raise: then the process has died there."""
    store = server.store()
    return ObjectStorage(lambda host: WatchedClient(open_client(store, host), tell), timeout=store.timeout)
