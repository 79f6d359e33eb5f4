"""The tables of the store, as SQLAlchemy knows them. Changed only together with a migration."""

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
    text,
)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime, kept and returned in UTC on databases that know zones and on those that do not."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times; give the database UTC."""
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
    """What people and other programs have said, which may hold signs that a database refuses."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Put a mark in the place of what is no text: NUL, and halves of UTF-16 pairs."""
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
Index("runs_by_instant", runs.c.identity, runs.c.service, runs.c.instant, runs.c.number)

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
"""One row: what the store is. Locking it serializes who joins, leaves and shares."""

replicas = Table(
    "replicas",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("url", String, nullable=False),
    Column("joined_at", UtcDateTime, nullable=False),
    Column("lease_until", UtcDateTime),  # none: until it leaves
    Column("ended_at", UtcDateTime),  # an end that was seen is final, whatever becomes of the database's clock
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
    Column("location", String(1024), nullable=False),  # empty where only its notes are known
    Column("seen_at", UtcDateTime, nullable=False),
)
"""When a replica has last said that it knows a table: what is kept of the others goes in the end."""

dirty = Table("dirty", metadata, Column("location", String(1024), primary_key=True))

decisions = Table(
    "decisions",
    metadata,
    Column("table_id", String(255), primary_key=True),
    Column("service", String(32), primary_key=True),
    Column("decision", String(16), nullable=False),
    Column("reason", Words, nullable=False),
    Column("remedy", Words),
    Column("again_at", UtcDateTime),
    Column("decided_at", UtcDateTime, nullable=False),
)

EVERYTHING = ""
"""The `table_id` under which the global pause is kept."""

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

standings = Table(
    "standings",
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
