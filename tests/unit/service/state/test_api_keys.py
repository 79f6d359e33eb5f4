"""The keys that count: read again and again, from the store and from secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.storage.settings import Secret
from lakewarden.service.config.access import KeySettings
from lakewarden.service.model.access import Caller, KeyRow, Role, digest_of
from lakewarden.service.state.api_keys import ApiKeys
from tests.support.store.memory_store import MemoryStore
from tests.support.waiting import eventually

OLD, NEW = b"lwk_the-old-key-of-alice", b"lwk_the-new-key-of-alice"


class FlakyStore(MemoryStore):
    """A store that may be away."""

    away = False
    broken = 0

    def api_keys(self) -> Sequence[KeyRow]:
        if self.broken:
            self.broken -= 1
            raise LookupError("a bug")
        if self.away:
            raise TemporaryError("the database does not answer", delay=timedelta(seconds=1))
        return super().api_keys()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> FlakyStore:
    store = FlakyStore(clock)
    store.keep_api_key(_row("old", OLD, clock.now()))
    return store


def _row(key_id: str, key: bytes, at: datetime) -> KeyRow:
    return KeyRow(
        id=key_id,
        name="alice",
        role=Role.OPERATOR,
        tables=("sales.*",),
        digest=digest_of(key),
        created_at=at,
        created_by="root",
    )


def test_an_old_and_a_new_key_count_until_the_old_one_is_revoked(store: FlakyStore, clock: ManualClock) -> None:
    """A program changes its key without a moment in which neither counts."""
    keys = ApiKeys(store=store, clock=clock)
    alice = Caller(name="alice", role=Role.OPERATOR, tables=("sales.*",), key="old")
    assert (keys.caller(OLD), keys.caller(NEW)) == (alice, None)

    store.keep_api_key(_row("new", NEW, clock.now()))
    keys.refresh()
    assert (keys.caller(OLD), keys.caller(NEW)) == (alice, replace(alice, key="new"))

    store.revoke_api_key("old", at=clock.now())
    keys.refresh()
    assert (keys.caller(OLD), keys.caller(NEW)) == (None, replace(alice, key="new"))
    assert keys.count() == 1


def test_a_key_ends_with_its_time(store: FlakyStore, clock: ManualClock) -> None:
    """It needs no reading of the store."""
    store.keep_api_key(replace(_row("short", NEW, clock.now()), expires_at=clock.now() + timedelta(hours=1)))
    keys = ApiKeys(store=store, clock=clock)
    assert keys.caller(NEW) is not None
    clock.advance(timedelta(hours=1))
    assert keys.caller(NEW) is None


def test_while_the_store_is_away_the_last_known_keys_count(store: FlakyStore, clock: ManualClock) -> None:
    """An operator can look at a daemon without a database."""
    keys = ApiKeys(store=store, clock=clock)
    store.away = True
    keys.refresh()
    assert keys.caller(OLD) is not None


def _setting(file: Path, role: Role = Role.HOOK) -> KeySettings:
    return KeySettings(name="writers", role=role, key=Secret(file=file))


def test_a_secret_is_read_again(store: FlakyStore, clock: ManualClock, tmp_path: Path) -> None:
    """A replaced secret counts, and the one before does not. A secret that is gone is a key that is gone."""
    file = tmp_path / "key"
    file.write_bytes(NEW + b"\n")
    keys = ApiKeys(store=store, clock=clock, configured=[_setting(file)])
    assert keys.caller(NEW) == Caller(name="writers", role=Role.HOOK, key=str(file))

    file.write_text("another key of thirty characters")
    keys.refresh()
    assert keys.caller(NEW) is None
    assert keys.caller(b"another key of thirty characters") is not None

    file.unlink()
    keys.refresh()
    assert keys.caller(b"another key of thirty characters") is None
    assert keys.caller(OLD) is not None


@pytest.mark.parametrize("key", [b"short", b"hudi_write_commit_http_callback", b""])
def test_a_key_that_can_be_guessed_does_not_count(
    store: FlakyStore, clock: ManualClock, tmp_path: Path, key: bytes
) -> None:
    """The public default of Hudi is no secret, however it was configured."""
    file = tmp_path / "key"
    file.write_bytes(key)
    keys = ApiKeys(store=store, clock=clock, configured=[_setting(file)])
    assert keys.caller(key) is None


def test_one_secret_has_one_role(store: FlakyStore, clock: ManualClock, tmp_path: Path) -> None:
    """If two entries have the same secret, the first one counts, whatever the second one allows."""
    files = [tmp_path / "one", tmp_path / "two"]
    for file in files:
        file.write_bytes(NEW)
    configured = [_setting(files[0]), _setting(files[1], Role.ADMIN)]
    keys = ApiKeys(store=store, clock=clock, configured=configured)
    assert keys.caller(NEW) == Caller(name="writers", role=Role.HOOK, key=str(files[0]))


def test_a_bug_in_one_reading_does_not_let_a_revoked_key_count_for_ever(store: FlakyStore, clock: ManualClock) -> None:
    """The thread goes on."""
    keys = ApiKeys(store=store, clock=clock)
    store.revoke_api_key("old", at=datetime.now(UTC))
    store.broken = 2
    with keys.kept_fresh(every=timedelta(milliseconds=5)):
        eventually(lambda: keys.caller(OLD) is None)
