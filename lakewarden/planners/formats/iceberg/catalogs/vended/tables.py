"""The tables that are read with vended credentials, each with a storage of its own."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from pydantic import ValidationError

from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointers
from lakewarden.planners.formats.iceberg.catalogs.settings import Access, RestCatalog
from lakewarden.planners.formats.iceberg.catalogs.vended.credentials import VendedCredential
from lakewarden.planners.formats.iceberg.catalogs.vended.storage import KeyStore, VendedStorage
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.clients import open_client
from lakewarden.planners.storage.locations import named_in_catalog
from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.scattered import ScatteredStorage
from lakewarden.planners.storage.settings import S3Store

_MOST_TABLES = 10_000
_MOST_OPEN = 256
"""The most tables with open clients, because each client has connections of its own."""


class VendedFiles:
    """The storages of all tables that are read with vended credentials. For any thread."""

    def __init__(self, pointers: Pointers) -> None:
        self._pointers = pointers
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[str, str], VendedStorage] = OrderedDict()
        self._open: OrderedDict[tuple[str, str], VendedStorage] = OrderedDict()
        self._looked_through = 0.0

    def of(self, table: Table, storage: Storage) -> Storage:
        """Return the storage for the table's files: `storage`, unless the catalog of the table has `access: vended`."""
        catalog = table.catalog
        if not isinstance(catalog, RestCatalog) or catalog.access is not Access.VENDED:
            return storage
        key = (table.location, catalog.model_dump_json())
        with self._lock:
            self._look_through()
            if key not in self._tables:
                self._tables[key] = self._made(table, catalog, storage)
            found = self._tables[key]
            for kept, most in ((self._tables, _MOST_TABLES), (self._open, _MOST_OPEN)):
                kept[key] = found
                kept.move_to_end(key)
                if len(kept) > most:
                    kept.popitem(last=False)[1].let_go()
        return found

    def _made(self, table: Table, catalog: RestCatalog, storage: Storage) -> VendedStorage:
        name, identifier = named_in_catalog(table.location)
        return VendedStorage(
            f"{identifier} in {name}",
            lambda known: self._pointers.vended(table, storage, known),
            allow=storage.holder if isinstance(storage, ScatteredStorage) else lambda _location: None,
            open_store=lambda credential: _opened(credential, catalog, name),
        )

    def _look_through(self) -> None:
        """Drop the credentials that have ended, once a minute."""
        now = time.monotonic()
        if now < self._looked_through + 60:
            return
        self._looked_through = now
        for one in self._tables.values():
            one.forget_the_ended()


def _opened(credential: VendedCredential, catalog: RestCatalog, name: str) -> KeyStore:
    try:
        settings = S3Store(
            prefix="s3://",
            endpoint=credential.endpoint,
            region=credential.region,
            path_style=credential.path_style,
            timeout=catalog.timeout,
        )
    except ValidationError:
        raise PermanentError(
            f"the catalog {name} names an endpoint of S3 that is no address of http or https"
        ) from None
    keys = {
        "access_key_id": credential.access_key,
        "secret_access_key": credential.secret_key,
        "token": credential.token,
        "expires_at": None,  # VendedStorage renews them
    }
    return ObjectStorage(lambda host: open_client(settings, host, keys=lambda: keys), timeout=settings.timeout)
