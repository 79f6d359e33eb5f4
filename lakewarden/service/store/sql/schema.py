"""The tables of the store for SQLAlchemy. A change of them needs a migration."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    false,
    text,
)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime. It is stored and returned in UTC, on databases with and without time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times, and give the database UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return an aware time in UTC."""
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class Words(TypeDecorator[str]):
    """Text from people and other programs. It may contain characters that a database refuses."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what is no text by a mark: NUL, and halves of UTF-16 pairs."""
        if value is None:
            return None
        return value.replace("\0", "\ufffd").encode("utf-8", errors="replace").decode("utf-8")


metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("table_id", String(255), nullable=False),
    Column("identity", String(1024), nullable=False),
    Column("service", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Words, nullable=False),
    Column("requested_by", Words(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("instant", String(64)),
    Column("epoch", Integer, nullable=False),
    Column("step", String(16)),
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("outcome", Words),
    Column("figures", JSON, nullable=False),
    Column("owner", String(128)),
    Column("executor", String),
    Column("application", String),
    Column("rewrite_all", String(64)),
)
Index(
    "one_active_run",
    runs.c.identity,
    runs.c.service,
    unique=True,
    sqlite_where=text("ended_at IS NULL"),
    postgresql_where=text("ended_at IS NULL"),
)
Index(
    "open_runs",
    runs.c.number,
    sqlite_where=text("ended_at IS NULL"),
    postgresql_where=text("ended_at IS NULL"),
)
Index("runs_by_number", runs.c.number)
Index("runs_by_table", runs.c.table_id, runs.c.service, runs.c.number)
Index("runs_by_lease", runs.c.identity, runs.c.service, runs.c.number, runs.c.instant)

leases = Table(
    "leases",
    metadata,
    Column("identity", String(1024), primary_key=True),
    Column("service", String(32), primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("owner", String(128), nullable=False),
    Column("claimed_at", UtcDateTime, nullable=False),
)

store = Table("store", metadata, Column("identity", String(32), primary_key=True))
"""One row: the identity of the store. A lock on it serializes joining, leaving and sharing."""

replicas = Table(
    "replicas",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("url", String, nullable=False),
    Column("joined_at", UtcDateTime, nullable=False),
    Column("lease_until", UtcDateTime),  # NULL: until it leaves
    Column("ended_at", UtcDateTime),  # an end that was seen is final, even if the clock of the database changes
)

shares = Table(
    "shares",
    metadata,
    Column("location", String(1024), primary_key=True),
    Column("replica", String(128), nullable=False),
)

registered = Table(
    "registered",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("location", String(1024), nullable=False),  # empty if only its other rows are known
    Column("seen_at", UtcDateTime, nullable=False),
)
"""When a replica last registered a table. The rows of other tables are deleted in the end."""

dirty = Table("dirty", metadata, Column("location", String(1024), primary_key=True))

decisions = Table(
    "decisions",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("service", String(32), primary_key=True),
    Column("decision", String(16), nullable=False),
    Column("code", String(32), nullable=False),
    Column("reason", Words, nullable=False),
    Column("remedy", Words),
    Column("again_at", UtcDateTime),
    Column("decided_at", UtcDateTime, nullable=False),
)

decision_changes = Table(
    "decision_changes",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("table_id", String(255), nullable=False),
    Column("service", String(32), nullable=False),
    Column("decision", String(16), nullable=False),
    Column("code", String(32), nullable=False),
    Column("reason", Words, nullable=False),
    Column("remedy", Words),
    Column("again_at", UtcDateTime),
    Column("decided_at", UtcDateTime, nullable=False),
    sqlite_autoincrement=True,  # a number is never used again
)
"""Each holds until the next one of its table and service."""
Index("decision_changes_by_service", *(decision_changes.c[column] for column in ("table_id", "service", "decided_at")))
Index("decision_changes_by_table", decision_changes.c.table_id, decision_changes.c.number)

EVERYTHING = ""
"""The `table_id` of the global pause."""

pauses = Table(
    "pauses",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("reason", Words, nullable=False),
    Column("paused_at", UtcDateTime, nullable=False),
)

approvals = Table(
    "approvals",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("service", String(32), primary_key=True),
    Column("identity", String(1024), nullable=False),
    Column("instant", String(64)),
    Column("files", Integer, nullable=False),
    Column("files_in_table", Integer),
    Column("partitions", Integer, nullable=False),
    Column("asked_at", UtcDateTime, nullable=False),
    Column("approved_by", Words(64)),
    Column("approved_at", UtcDateTime),
    Column("first", Boolean, nullable=False, server_default=false()),
    Column("shorter", Words),
    Column("retained", String(64)),
    Column("bytes", BigInteger),
    Column("versions", Integer),
)

rewrites = Table(
    "rewrites",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("service", String(32), primary_key=True),
    Column("identity", String(1024), nullable=False),
    Column("mark", String(64), nullable=False),
    Column("asked_by", Words(64), nullable=False),
    Column("asked_at", UtcDateTime, nullable=False),
)

lock_proofs = Table(
    "lock_proofs",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("identity", String(1024), nullable=False),
    Column("lock", Words, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("witnessed", Integer, nullable=False),
    Column("several", Boolean, nullable=False),
    Column("without", String(64)),
    Column("seen_at", UtcDateTime),
)

writer_signs = Table(
    "writer_signs",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("hook_at", UtcDateTime),
    Column("beat_at", UtcDateTime),
)

folders = Table(
    "folders",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("location", String(1024), nullable=False),
    Column("folder", String(64), nullable=False),  # a digest: a catalog may name a folder of any length
)
Index("folders_by_folder", folders.c.folder)

service_states = Table(
    "service_states",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("service", String(32), primary_key=True),
    Column("tries", Integer, nullable=False),
    Column("strikes", Integer, nullable=False),
    Column("suspect", Boolean, nullable=False),
    Column("rest_until", UtcDateTime),
    Column("rest_reason", Words),
    Column("quarantined", Words),
    Column("idle_after", String(64)),
    Column("idle_commits", Integer, nullable=False),
    Column("idle_rewrites", Integer, nullable=False),
    Column("idle_at", UtcDateTime),
    Column("largest_plan", BigInteger),
    Column("smaller_until", UtcDateTime),
    Column("smaller_reason", Words),
)

acts = Table(
    "acts",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False),
    Column("who", Words(64), nullable=False),
    Column("key", Words),
    Column("kind", String(32), nullable=False),
    Column("table_id", String(255)),
    Column("service", String(32)),
    Column("before", Words),
    Column("after", Words),
    sqlite_autoincrement=True,  # a number is never used again
)
"""The audit log."""
Index("acts_by_table", acts.c.table_id, acts.c.number)
Index("acts_by_time", acts.c.at)

registrations = Table(
    "registrations",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("entry", Words),  # JSON. NULL: the table was removed
    Column("number", Integer, nullable=False, unique=True),
    Column("by", Words(64), nullable=False),
    Column("at", UtcDateTime, nullable=False),
)
"""The tables that are registered over the API."""

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", Words(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("tables", JSON, nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 in hexadecimal
    Column("created_at", UtcDateTime, nullable=False),
    Column("created_by", Words(64), nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
)
