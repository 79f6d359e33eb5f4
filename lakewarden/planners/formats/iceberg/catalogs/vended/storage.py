"""A table's files are read with the credentials that its catalog hands out. The credentials are renewed before they
end, and no message contains them.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from pydantic import ValidationError

from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointers
from lakewarden.planners.formats.iceberg.catalogs.settings import Access, RestCatalog
from lakewarden.planners.formats.iceberg.catalogs.vended.credentials import Vended, VendedCredential
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry, Storage
from lakewarden.planners.storage.content import FileTooLargeError, StoreRefusedError
from lakewarden.planners.storage.inside import ScatteredStorage
from lakewarden.planners.storage.locations import named_in_catalog
from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.settings import S3Store
from lakewarden.planners.storage.storages import open_client

_T = TypeVar("_T")
_SHORTEST_REST = 10.0
"""Seconds. If a store refuses younger credentials than this, the catalog is not asked for others."""

_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")
_OUT_OF_DATE = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId")
"""Amazon's codes for credentials that have ended. Some of them come with status 400."""

_AT_ONCE = 1000

_SHOWN = 8
"""Characters. A message that was cut may end with so much of a secret."""


class KeyStore(Storage, Protocol):
    """A storage that finds out whether a file exists by a listing alone."""

    def holds(self, location: str) -> bool:
        """Return whether there is a file."""
        ...


OpenStore = Callable[[VendedCredential], KeyStore]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Handed:
    """An answer of the catalog, and when it was asked, in seconds since the epoch."""

    vended: Vended
    at: float


class VendedStorage:
    """The storage of one table. A file for which there is no credential is not read: the credentials of Lakewarden
    itself are for other tables.

    For any thread.
    """

    def __init__(
        self,
        table: str,
        ask: Callable[[Vended | None], Vended],
        *,
        open_store: OpenStore,
        allow: Callable[[str], object] = lambda _location: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`table` is its name in messages. `ask` asks its catalog, and gets the catalog's last answer. `allow` raises
        PermanentError if no file of that location may be read.
        """
        self._table = table
        self._ask = ask
        self._open_store = open_store
        self._allow = allow
        self._now = now
        self._asking = threading.Lock()
        self._handed: _Handed | None = None
        self._stores: dict[str, KeyStore] = {}

    def stamp(self, location: str) -> str:
        """Return the stamp from the folder's store."""
        return self._answer(location, lambda store: store.stamp(location))

    def changed_at(self, location: str) -> datetime | None:
        """Return None, as every object store does."""
        return None

    def version(self, location: str) -> str:
        """Return the version from the file's store."""
        return self._answer(location, lambda store: _unless_missing(store, location, lambda: store.version(location)))

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return the listing from the folder's store."""
        return self._answer(location, lambda store: store.listing(location, most=most))

    def entries(self, location: str) -> Iterator[FileEntry]:
        """Yield the entries from the folder's store."""
        handed = self._current()
        more = self._answer_with(handed, location, lambda store: store.entries(location))
        while some := self._answer_with(handed, location, lambda _: list(itertools.islice(more, _AT_ONCE))):
            yield from some

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        """Return the names from the folder's store."""
        return self._answer(location, lambda store: store.present(location, names))

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the content from the file's store."""
        return self._answer(
            location, lambda store: _unless_missing(store, location, lambda: store.read(location, limit=limit))
        )

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return the part from the file's store."""
        return self._answer(
            location,
            lambda store: _unless_missing(store, location, lambda: store.read_part(location, begin=begin, size=size)),
        )

    def let_go(self) -> None:
        """Close the connections. The credentials are kept until they end."""
        self._stores = {}

    def forget_the_ended(self) -> None:
        """Drop the credentials if they have ended."""
        handed = self._handed
        if handed is not None and self._now() >= handed.vended.ends_at(handed.at):
            self._handed, self._stores = None, {}

    def _answer(self, location: str, act: Callable[[KeyStore], _T]) -> _T:
        handed = self._current()
        try:
            return self._answer_with(handed, location, act)
        except StoreRefusedError:
            if self._now() < handed.at + _SHORTEST_REST:
                raise
        return self._answer_with(self._current(instead_of=handed), location, act)

    def _answer_with(self, handed: _Handed, location: str, act: Callable[[KeyStore], _T]) -> _T:
        """Return the store's answer. The text of a refusal is not quoted, because a store may repeat a token in it."""
        self._allow(location)
        credential = handed.vended.of(location)
        if credential is None:
            raise StoreRefusedError(self._none_for(handed.vended, location))
        try:
            return act(self._store(credential))
        except LakewardenError as error:
            plain_error = self._plainly(error, location, credential)
        raise plain_error

    def _store(self, credential: VendedCredential) -> KeyStore:
        stores = self._stores
        if credential.prefix not in stores:
            stores[credential.prefix] = self._open_store(credential)
        return stores[credential.prefix]

    def _plainly(self, error: LakewardenError, location: str, credential: VendedCredential) -> LakewardenError:
        """Return the error without any credential in its text."""
        text = str(error)
        code = next(iter(_CODE.findall(text)), "")
        if isinstance(error, StoreRefusedError) or code in _OUT_OF_DATE:
            code_text = f" ({code})" if code else ""
            return StoreRefusedError(
                f"{location} cannot be read: its store refuses the credentials that {self._table} was handed by its "
                f"catalog{code_text}: let the catalog's role read it, or see its storage configuration"
            )
        kind = next(
            error_type
            for error_type in (FileTooLargeError, PermanentError, TemporaryError, LakewardenError)
            if isinstance(error, error_type)
        )
        return kind(without(credential.secrets(), text))

    def _none_for(self, vended: Vended, location: str) -> str:
        if vended.credentials:
            return f"{location} cannot be read: the catalog of {self._table} handed out no credentials for that place"
        return (
            f"the catalog of {self._table} hands out no credentials of S3 to its files: give Lakewarden credentials of "
            "its own, by an entry for the bucket under storage, and set access: storage"
        )

    def _current(self, *, instead_of: _Handed | None = None) -> _Handed:
        """Return the credentials for now. One thread asks the catalog, and the other threads take its answer.

        If the catalog does not answer, the present credentials are used until they end.
        """
        handed = self._handed
        if handed is not None and handed is not instead_of and not self._is_due(handed):
            return handed
        with self._asking:
            handed = self._handed
            if handed is not None and handed is not instead_of and not self._is_due(handed):
                return handed
            last_handed, asked_at = handed, self._now()
            of_use = (
                last_handed is not None
                and last_handed is not instead_of
                and asked_at < last_handed.vended.ends_at(last_handed.at)
            )
            try:
                vended = self._ask(None if last_handed is None or last_handed is instead_of else last_handed.vended)
            except TemporaryError:
                if last_handed is not None and of_use:
                    return last_handed
                raise
            self._handed, self._stores = _Handed(vended=vended, at=asked_at), {}
            return self._handed

    def _is_due(self, handed: _Handed) -> bool:
        return self._now() >= handed.vended.renewed_at(handed.at)


def _unless_missing(store: KeyStore, location: str, ask: Callable[[], _T]) -> _T:
    """Return the answer. If the store refuses a file that a listing does not show, raise FileNotFoundError: credentials
    that may list no more than the table's folder get 403 for a missing file (Amazon's `GetObject`, "Permissions").
    """
    try:
        return ask()
    except StoreRefusedError:
        try:
            missing = not store.holds(location)
        except (LakewardenError, FileNotFoundError):
            missing = False
        if missing:
            raise FileNotFoundError(location) from None
        raise


def without(secrets: Sequence[str], text: str) -> str:
    """Return a text without the secrets, and without the beginning of a secret at its end."""
    for secret in secrets:
        text = text.replace(secret, "***")
        longest = min(len(secret), len(text))
        cut = next((size for size in range(longest, _SHOWN, -1) if text.endswith(secret[:size])), 0)
        text = f"{text[: len(text) - cut]}***" if cut else text
    return text


# The tables that are read with vended credentials, each with a storage of its own.

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
            table_storage = self._tables[key]
            for kept, most in ((self._tables, _MOST_TABLES), (self._open, _MOST_OPEN)):
                kept[key] = table_storage
                kept.move_to_end(key)
                if len(kept) > most:
                    kept.popitem(last=False)[1].let_go()
        return table_storage

    def _made(self, table: Table, catalog: RestCatalog, storage: Storage) -> VendedStorage:
        name, identifier = named_in_catalog(table.location)
        return VendedStorage(
            f"{identifier} in {name}",
            lambda last_answer: self._pointers.vended(table, storage, last_answer),
            allow=storage.holder if isinstance(storage, ScatteredStorage) else lambda _location: None,
            open_store=lambda credential: _opened(credential, catalog, name),
        )

    def _look_through(self) -> None:
        """Drop the credentials that have ended, once a minute."""
        now = time.monotonic()
        if now < self._looked_through + 60:
            return
        self._looked_through = now
        for table in self._tables.values():
            table.forget_the_ended()


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
            f"the catalog {name} names an endpoint of S3 that is not an address of http or https"
        ) from None
    keys = {
        "access_key_id": credential.access_key,
        "secret_access_key": credential.secret_key,
        "token": credential.token,
        "expires_at": None,  # VendedStorage renews them
    }
    return ObjectStorage(lambda host: open_client(settings, host, keys=lambda: keys), timeout=settings.timeout)
