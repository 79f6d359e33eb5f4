"""Files are read with vended credentials. These are renewed in time, are requested seldom, and are in no message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.catalogs.vended.credentials import Vended, VendedCredential, vended
from lakewarden.planners.formats.iceberg.catalogs.vended.storage import VendedStorage, without
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage.content import FileTooLargeError, refused

AT = "s3://lake/t/metadata/v1.json"


class Bucket:
    """A store of one file. It accepts the keys in `opens_to`."""

    def __init__(self, store: Store, credential: VendedCredential) -> None:
        self._store, self._credential = store, credential

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        store, key = self._store, self._credential.access_key
        if store.fails is not None:
            raise store.fails(self._credential)
        if key not in store.opens_to:
            raise refused(location, f"403 Forbidden: <Error><Code>AccessDenied</Code><Key>{key}</Key></Error>")
        if location != AT:
            if store.hides_what_is_missing:
                raise refused(location, "403 Forbidden")
            raise FileNotFoundError(location)
        return key.encode()

    def holds(self, location: str) -> bool:
        return location == AT

    def stamp(self, location: str) -> str:
        return self.read(AT).decode()

    def changed_at(self, location: str) -> datetime | None:
        return None

    def version(self, location: str) -> str:
        return self.read(location).decode()

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        self.read(AT)
        return ()

    def entries(self, location: str) -> Iterator[FileEntry]:
        yield from self.listing(location)

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        self.read(AT)
        return ()

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        return self.read(location)[begin : begin + size]


class Store:
    """A catalog that hands out keys for an hour, and a store. `opens_to` has the keys that the store accepts."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked: list[Vended | None] = []
        self.opens_to: set[str] = set()
        self.fails: Callable[[VendedCredential], Exception] | None = None
        self.hides_what_is_missing = False
        self.takes_new_ones = True
        self.away = False
        self.answers: dict[str, object] = {}
        self.storage = VendedStorage(
            "sales.orders in lake", self._hand_out, open_store=lambda one: Bucket(self, one), now=lambda: self.now
        )

    def _hand_out(self, known: Vended | None) -> Vended:
        if self.away:
            raise TemporaryError("the catalog lake does not answer")
        self.asked.append(known)
        key = f"key-{len(self.asked)}"
        if self.takes_new_ones:
            self.opens_to = {key}
        ends = str(int((self.now + 3600) * 1000))
        told = {"s3.access-key-id": key, "s3.secret-access-key": "s", "s3.session-token-expires-at-ms": ends}
        return vended(self.answers or {"storage-credentials": [{"prefix": "s3://lake/t", "config": told}]}, given={})


@pytest.fixture
def store() -> Store:
    return Store()


def test_credentials_are_asked_for_once_and_renewed_in_time(store: Store) -> None:
    """For each such request the catalog calls its token service."""
    for _ in range(3):
        assert store.storage.read(AT) == store.storage.read_part(AT, begin=0, size=9) == b"key-1"
    store.now += 3299
    assert store.storage.version(AT) == store.storage.stamp("s3://lake/t/metadata") == "key-1"
    store.now += 1
    assert store.storage.read(AT) == b"key-2"

    assert [one is None for one in store.asked] == [True, False]  # the second time it is told what it handed out


def test_a_catalog_that_is_away_for_a_moment_stops_no_reading(store: Store) -> None:
    """The present credentials are used until they end. After that nothing is read with them."""
    store.storage.read(AT)
    store.away, store.now = True, store.now + 3400
    assert store.storage.read(AT) == b"key-1"
    store.now += 300
    with pytest.raises(TemporaryError, match="does not answer"):
        store.storage.read(AT)


def test_credentials_that_are_not_taken_any_more_are_replaced_once(store: Store) -> None:
    """The catalog may have revoked them. If the store refuses the new ones, too, the catalog is not asked each time."""
    store.storage.read(AT)
    store.opens_to, store.now = set(), store.now + 60
    assert store.storage.read(AT) == b"key-2"
    assert store.asked == [None, None]  # this is no renewal, because the known ones are of no use

    store.opens_to, store.takes_new_ones = set(), False
    with pytest.raises(TemporaryError):
        store.storage.read(AT)
    assert len(store.asked) == 2  # it was handed them a moment ago
    store.now += 60
    with pytest.raises(
        TemporaryError, match=r"refuses the credentials that sales.orders in lake was handed .* \(AccessD"
    ):
        store.storage.read(AT)
    assert len(store.asked) == 3


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidToken"])
def test_a_token_that_has_ended_is_renewed_although_it_is_a_bad_request(store: Store, code: str) -> None:
    """Amazon answers 400 for such a token."""
    store.storage.read(AT)
    store.now += 60

    def ended(one: VendedCredential) -> Exception:
        store.fails = None
        return TemporaryError(f"{AT} cannot be read: 400 <Error><Code>{code}</Code><Token-0>x</Token-0></Error>")

    store.fails = ended
    assert store.storage.read(AT) == b"key-2"


def test_many_threads_ask_once(store: Store) -> None:
    """Sixteen threads read manifests."""
    hand_out = store._hand_out

    def slowly(known: Vended | None) -> Vended:
        time.sleep(0.05)
        return hand_out(known)

    storage = VendedStorage("t", slowly, open_store=lambda one: Bucket(store, one), now=lambda: store.now)
    threads = [threading.Thread(target=storage.read, args=(AT,)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.asked) == 1


def test_a_missing_file_is_told_from_a_refused_one(store: Store) -> None:
    """Credentials that may list the table's folder alone get 403 for a missing file."""
    store.hides_what_is_missing = True
    for ask in (store.storage.read, store.storage.version):
        with pytest.raises(FileNotFoundError):
            ask("s3://lake/t/metadata/lakewarden-clean.json")
    assert len(store.asked) == 1


def test_no_file_is_read_with_other_credentials(store: Store) -> None:
    """The metadata of a table may name any file."""
    for elsewhere in ("/etc/passwd", "hdfs://host/t", "s3://lake/other", "gs://lake/t"):
        with pytest.raises(TemporaryError, match="handed out no credentials for that place"):
            store.storage.read(elsewhere)


def test_a_catalog_that_hands_out_none_is_named(store: Store) -> None:
    """The message has the remedy. The catalog is asked again with a later observation."""
    store.answers = {"config": {"gcs.oauth2.token": "x"}}
    with pytest.raises(
        TemporaryError, match=r"lake hands out no credentials of S3 to its files: .*set access: storage"
    ):
        store.storage.read(AT)
    store.answers, store.now = {}, store.now + 60
    assert store.storage.read(AT) == b"key-2"


def test_nothing_is_kept_that_has_ended(store: Store) -> None:
    """A table that is not observed any more leaves no credentials in memory."""
    store.storage.read(AT)
    store.storage.let_go()
    assert store.storage._handed is not None
    store.now += 3601
    store.storage.forget_the_ended()
    assert store.storage._handed is None
    assert store.storage.changed_at(AT) is None


SECRET = st.text(st.characters(min_codepoint=48, max_codepoint=122), min_size=12, max_size=60)


@given(
    secrets=st.lists(SECRET, min_size=3, max_size=3),
    text=st.text(max_size=30),
    cut=st.integers(9, 60),
    kind=st.integers(0, 4),
)
def test_no_message_contains_a_credential(secrets: list[str], text: str, cut: int, kind: int) -> None:
    """A store may repeat the request in its answer, and a client may cut a long answer."""
    access, secret, token = secrets
    told = {"s3.access-key-id": access, "s3.secret-access-key": secret, "s3.session-token": token}

    class Rude(Bucket):
        def read(self, location: str, *, limit: int = 2**26) -> bytes:
            said = f"{text}<Token-0>{token}</Token-0>{secret}{access}{text}x-amz-security-token:{token[:cut]}"
            raise (
                refused(location, said),
                TemporaryError(said),
                PermanentError(said),
                FileTooLargeError(said),
                TemporaryError(f"<Code>ExpiredToken</Code>{said}"),
            )[kind]

    storage = VendedStorage(
        "t", lambda _: vended({"config": told}, given={}), open_store=lambda one: Rude(Store(), one), now=lambda: 0.0
    )
    for ask in (storage.read, storage.version, storage.stamp, storage.listing):
        with pytest.raises((TemporaryError, PermanentError)) as error:
            ask(AT)
        shown = repr(error.value)
        assert not any(one in shown for one in secrets)
        assert error.value.__cause__ is None
        assert not shown.rstrip("')").endswith(token[:cut])


def test_a_text_without_secrets_stays_as_it_is() -> None:
    assert without(("secret-of-someone",), "nothing to hide: secret") == "nothing to hide: secret"
    assert without(("secret-of-someone",), "it is secret-of-some") == "it is ***"
