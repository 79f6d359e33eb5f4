"""Access: roles, API keys, and the callers that keys identify. Pure."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from ipaddress import ip_address

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId

KEY_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"
"""The name of a key. It is the name of its person or program in runs, approvals and the audit log."""

LONGEST_NAME = 64

RESERVED_NAMES = frozenset({"api", "policy"})
"""The names of requests without authentication, and of policies. No key and no token has one of them."""

TABLE_PATTERN = r"^[A-Za-z0-9_.*?-]{1,200}$"
"""A pattern for ids of tables, with `*` and `?`."""

SHORTEST_KEY = 20
"""The fewest characters of a key. The keys of `lakewarden keys create` have 256 random bits."""

EVERY_TABLE = ("*",)

_PREFIX = "lwk_"


class Role(StrEnum):
    """What a caller may do. A route declares one role, and a caller needs a role that includes it."""

    VIEWER = "viewer"
    HOOK = "hook"
    TRIGGER = "trigger"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether a caller with this role may use the routes of the other one."""
        return other in _INCLUDED[self]


_INCLUDED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.HOOK: frozenset({Role.HOOK}),
    Role.TRIGGER: frozenset({Role.VIEWER, Role.TRIGGER}),
    Role.OPERATOR: frozenset({Role.VIEWER, Role.HOOK, Role.TRIGGER, Role.OPERATOR}),
    Role.ADMIN: frozenset(Role),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The sender of one request: its name, its role, and the patterns of the tables for which it has the role.

    `key` is the id of its API key, or the issuer and the subject of its token. None without
    authentication.
    """

    name: str
    role: Role
    tables: tuple[str, ...] = EVERY_TABLE
    key: str | None = None

    def may(self, role: Role) -> bool:
        """Whether the role of the caller includes another role."""
        return self.role.includes(role)

    def reaches(self, table: str) -> bool:
        """Whether the role counts for a table."""
        return any(fnmatchcase(table, pattern) for pattern in self.tables)

    def may_approve(self, requested_by: str) -> bool:
        """Say whether the caller may approve a deletion of a run: two persons decide on it. Without a key no person
        is known.
        """
        return self.key is None or self.name != requested_by

    @property
    def reaches_everything(self) -> bool:
        """Whether the role counts for every table, and so for the daemon as a whole."""
        return "*" in self.tables


LOCAL = Caller(name="api", role=Role.ADMIN)
"""The caller of every request if there is no authentication. Then the ports listen on loopback only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRow:
    """An API key in the store. `digest` is the SHA-256 of the key, in hexadecimal. The key itself is kept nowhere."""

    id: str
    name: str
    role: Role
    tables: tuple[str, ...]
    digest: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def counts(self, now: datetime) -> bool:
        """Whether the key is accepted at a moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    @property
    def caller(self) -> Caller:
        """The caller that the key identifies."""
        return Caller(name=self.name, role=self.role, tables=self.tables, key=self.id)


def new_key() -> str:
    """Return a new random key. It has 256 bits, so its plain SHA-256 cannot be guessed."""
    return _PREFIX + secrets.token_urlsafe(32)


def new_key_id() -> str:
    """Return a new random id of a key."""
    return secrets.token_hex(4)


def digest_of(key: bytes) -> str:
    """Return the hash of a key under which it is kept."""
    return hashlib.sha256(key).hexdigest()


# Acts: what persons and programs change through the API and the command line. The audit log keeps them.


class ActKind(StrEnum):
    """What was done."""

    RUN_REQUESTED = "run_requested"
    REWRITE_WITHDRAWN = "rewrite_withdrawn"
    PAUSED = "paused"
    RESUMED = "resumed"
    DELETION_APPROVED = "deletion_approved"
    BARRIER_ASKED = "barrier_asked"
    BARRIER_LIFTED = "barrier_lifted"
    RUN_CANCELLED = "run_cancelled"
    RELEASED = "released"
    DRAINED = "drained"
    RELOADED = "reloaded"
    TABLE_REGISTERED = "table_registered"
    REGISTRATION_CHANGED = "registration_changed"
    TABLE_REMOVED = "table_removed"
    KEY_CREATED = "key_created"
    KEY_REVOKED = "key_revoked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """One act of a caller. `number` orders the acts of a store. The store gives it.

    `who` is the name of the caller, and `key` the id of its API key. None if no key was asked for. `before` and `after`
    are what the act changed, in words. `table` and `service` are None if the act is not about one.
    """

    at: datetime
    who: str
    key: str | None
    kind: ActKind
    table: TableId | None = None
    service: Service | None = None
    before: str | None = None
    after: str | None = None
    number: int = 0


def is_loopback(host: str) -> bool:
    """Whether only programs of the same machine reach a server that listens there."""
    if host.lower().rstrip(".") in ("localhost", "localhost.localdomain"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
