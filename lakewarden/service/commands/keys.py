"""`lakewarden keys`: it makes, lists and revokes the API keys in the store of a configuration."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

from lakewarden.planners.model.errors import PermanentError, UnknownNameError
from lakewarden.planners.model.printable import printable
from lakewarden.service.config.access import Authentication, KeySettings
from lakewarden.service.config.loading import Config, load
from lakewarden.service.model.access import (
    EVERY_TABLE,
    KEY_NAME,
    RESERVED_NAMES,
    TABLE_PATTERN,
    Act,
    ActKind,
    KeyRow,
    Role,
    digest_of,
    new_key,
    new_key_id,
)
from lakewarden.service.state.api_keys import usable
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.sql.store import Store


def create_key(
    name: str,
    *,
    role: Role,
    tables: Sequence[str],
    lives: timedelta | None,
    config: Path,
    as_json: bool,
    out: TextIO,
) -> None:
    """Make a key, and print it once. Only its hash is kept. It ends after `lives`. None: it never ends.

    Raises PermanentError if the name or a pattern is invalid, or if the configuration is wrong.
    """
    if not re.fullmatch(KEY_NAME, name):
        raise PermanentError(f"{name!r} is not a key name: it has up to 64 letters, digits, dots, @, - and _")
    if name in RESERVED_NAMES:
        raise PermanentError(f"{name!r} is not a key name: it means requests that no person made")
    wrong = next((table for table in tables if not re.fullmatch(TABLE_PATTERN, table)), None)
    if wrong is not None:
        raise PermanentError(f"{wrong!r} is not a table pattern: it has letters, digits, dots, -, _, * and ?")
    now, key, configuration = datetime.now(UTC), new_key(), load(config)
    row = KeyRow(
        id=new_key_id(),
        name=name,
        role=role,
        tables=tuple(tables) or EVERY_TABLE,
        digest=digest_of(key.encode()),
        created_at=now,
        created_by=_person(),
        expires_at=None if lives is None else now + lives,
    )
    with _store_of(configuration) as store:
        store.note_act(_act(ActKind.KEY_CREATED, now, after=f"{row.id} of {name}: {role} of {', '.join(row.tables)}"))
        store.keep_api_key(row)
    if as_json:
        print(json.dumps({**_entry_of(row, now), "key": key}, indent=2), file=out)
        return
    print(f"key {row.id} of {name}: {role} of {', '.join(row.tables)}. It is shown only now:\n\n{key}\n", file=out)
    print(f"A running daemon accepts it within a few seconds.{_unasked(configuration)}", file=out)


def key_entries(config: Path) -> list[dict[str, Any]]:
    """Return every key of the store and of the configuration without the key itself.

    The id of a key of the configuration is the place of its secret, as in the audit log. It is `missing` if the secret
    cannot be read from here, and `refused` if the daemon does not take it.
    """
    configuration, now = load(config), datetime.now(UTC)
    with _store_of(configuration) as store:
        entries = [_entry_of(row, now) for row in store.api_keys()]
    seen: set[str] = set()
    return [*entries, *(_entry_configured(key, seen) for key in configuration.settings.access.keys)]


def revoke_key(key: str, *, config: Path, out: TextIO) -> None:
    """Revoke a key by its id. Raises UnknownNameError if there is none that could be revoked."""
    now = datetime.now(UTC)
    with _store_of(load(config)) as store:
        row = next((entry for entry in store.api_keys() if entry.id == key and entry.revoked_at is None), None)
        if row is not None:
            store.note_act(_act(ActKind.KEY_REVOKED, now, before=f"{key} of {row.name}: {row.role}"))
        if not store.revoke_api_key(key, at=now):
            raise UnknownNameError(f"there is no key {key!r} that counts: 'lakewarden keys list' shows all")
    print(f"key {printable(key)} is revoked. A running daemon refuses it within a few seconds.", file=out)


@contextmanager
def _store_of(config: Config) -> Iterator[Store]:
    try:
        config.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise PermanentError(f"data_dir {config.data_dir} cannot be used: {error.strerror}") from error
    store = open_store(config.settings.database, data_dir=config.data_dir)
    try:
        yield store
    finally:
        store.close()


def _act(kind: ActKind, at: datetime, *, before: str | None = None, after: str | None = None) -> Act:
    return Act(at=at, who=_person(), key=None, kind=kind, before=before, after=after)


def _entry_of(row: KeyRow, now: datetime) -> dict[str, Any]:
    state = "revoked" if row.revoked_at is not None else "valid" if row.counts(now) else "expired"
    return {
        "id": row.id,
        "source": "store",
        "name": row.name,
        "role": row.role.value,
        "tables": [*row.tables],
        "state": state,
        "created_at": row.created_at.isoformat(timespec="seconds"),
        "created_by": row.created_by,
        "expires_at": None if row.expires_at is None else row.expires_at.isoformat(timespec="seconds"),
    }


def _entry_configured(key: KeySettings, seen: set[str]) -> dict[str, Any]:
    return {
        "id": key.place,
        "source": "configuration",
        "name": key.name,
        "role": key.role.value,
        "tables": [*key.tables],
        "state": _state_of(key, seen),
        "created_at": None,
        "created_by": None,
        "expires_at": None,
    }


def _state_of(key: KeySettings, seen: set[str]) -> str:
    """Return the state of a key. `seen` has the digests of the keys before it, and gets its own."""
    try:
        secret = key.key.value()
    except PermanentError:
        return "missing"
    try:
        digest = usable(secret)
    except PermanentError:
        return "refused"
    if digest in seen:
        return "refused"
    seen.add(digest)
    return "valid"


def _unasked(config: Config) -> str:
    if config.settings.access.authentication is Authentication.KEYS:
        return ""
    return " access.authentication of this configuration is none: no request needs a key."


def _person() -> str:
    """Return the user of the operating system."""
    try:
        return getpass.getuser()[:64]
    except (KeyError, OSError):  # a user without a name, as in many containers
        return "unknown"
