"""API keys in every kind of store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakewarden.service.model.access import KeyRow, Role, digest_of
from lakewarden.service.store.sql.store import Store

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
KEY = KeyRow(
    id="3969e427",
    name="alice",
    role=Role.OPERATOR,
    tables=("sales.*", "hr"),
    digest=digest_of(b"a key"),
    created_at=NOW,
    created_by="root",
    expires_at=NOW + timedelta(days=90),
)


def test_a_key_is_kept_and_revoked_once(store: Store) -> None:
    """All that was kept comes back. A key that is revoked stays in the list."""
    later = replace(KEY, id="00000001", digest=digest_of(b"another"), created_at=NOW + timedelta(1), expires_at=None)
    store.keep_api_key(later)
    store.keep_api_key(KEY)
    assert store.api_keys() == [KEY, later]

    assert store.revoke_api_key(KEY.id, at=NOW)
    assert not store.revoke_api_key(KEY.id, at=NOW + timedelta(1))
    assert not store.revoke_api_key("none", at=NOW)
    assert store.api_keys() == [replace(KEY, revoked_at=NOW), later]


def test_housekeeping_leaves_keys_alone(store: Store) -> None:
    """A key does not belong to a table, and ends only by its time or its revocation."""
    store.keep_api_key(KEY)
    list(store.forget(registered={}, at=NOW + timedelta(days=9999), keep=timedelta(hours=1)))
    assert store.api_keys() == [KEY]
