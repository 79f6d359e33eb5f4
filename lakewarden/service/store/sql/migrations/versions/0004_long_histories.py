"""Indexes for the queries of each decision, and the registered tables."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from lakewarden.service.store.sql.schema import UtcDateTime

revision = "0004"
down_revision = "0003"

_ABOUT_TABLES = ("runs", "decisions", "service_states", "approvals")


def upgrade() -> None:
    """Add the indexes. Every table that has rows counts as registered now."""
    open_runs = sa.text("ended_at IS NULL")
    op.create_index("open_runs", "runs", ["number"], sqlite_where=open_runs, postgresql_where=open_runs)
    op.create_index("runs_by_lease", "runs", ["identity", "service", "number", "instant"])
    op.create_index("runs_by_instant", "runs", ["identity", "service", "instant", "number"])
    op.create_table(
        "registered",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("location", sa.String(1024), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    )
    registered = sa.table("registered", sa.column("table_id"), sa.column("location"), sa.column("seen_at"))
    kept = sa.union(*(sa.select(sa.column("table_id")).select_from(sa.table(notes)) for notes in _ABOUT_TABLES)).cte()
    now = sa.literal(datetime.now(UTC), UtcDateTime)
    op.execute(
        registered.insert().from_select(["table_id", "location", "seen_at"], sa.select(kept, sa.literal(""), now))
    )
