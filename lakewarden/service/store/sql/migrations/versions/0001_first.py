"""Runs, leases, decisions and pauses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the first schema."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "runs",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("table_id", sa.String(255), nullable=False),
        sa.Column("identity", sa.String(1024), nullable=False),
        sa.Column("service", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("requested_by", sa.String(64), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("instant", sa.String(64)),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("step", sa.String(16)),
        sa.Column("started_at", moment),
        sa.Column("ended_at", moment),
        sa.Column("outcome", sa.String),
        sa.Column("figures", sa.JSON, nullable=False),
    )
    open_runs = sa.text("ended_at IS NULL")
    op.create_index(
        "one_active_run",
        "runs",
        ["identity", "service"],
        unique=True,
        sqlite_where=open_runs,
        postgresql_where=open_runs,
    )
    op.create_index("runs_by_number", "runs", ["number"])
    op.create_index("runs_by_table", "runs", ["table_id", "service", "number"])
    op.create_table(
        "leases",
        sa.Column("identity", sa.String(1024), primary_key=True),
        sa.Column("service", sa.String(32), primary_key=True),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("claimed_at", moment, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("service", sa.String(32), primary_key=True),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("remedy", sa.String),
        sa.Column("again_at", moment),
        sa.Column("decided_at", moment, nullable=False),
    )
    op.create_table(
        "pauses",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("paused_at", moment, nullable=False),
    )
