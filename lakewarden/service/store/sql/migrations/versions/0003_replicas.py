"""Replicas with their leases and shares, the owner and executor of a run, service states, and the identity of the
store.
"""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables of ownership, and the identity of the store."""
    moment = sa.DateTime(timezone=True)
    store = op.create_table("store", sa.Column("identity", sa.String(32), primary_key=True))
    op.bulk_insert(store, [{"identity": uuid.uuid4().hex}])
    op.create_table(
        "replicas",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("url", sa.String, nullable=False),
        sa.Column("joined_at", moment, nullable=False),
        sa.Column("lease_until", moment),
        sa.Column("ended_at", moment),
    )
    op.create_table(
        "shares",
        sa.Column("location", sa.String(1024), primary_key=True),
        sa.Column("replica", sa.String(128), nullable=False),
    )
    op.create_table("dirty", sa.Column("location", sa.String(1024), primary_key=True))
    op.create_table(
        "service_states",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("service", sa.String(32), primary_key=True),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("strikes", sa.Integer, nullable=False),
        sa.Column("suspect", sa.Boolean, nullable=False),
        sa.Column("rest_until", moment),
        sa.Column("rest_reason", sa.String),
        sa.Column("quarantined", sa.String),
        sa.Column("idle_after", sa.String(64)),
        sa.Column("idle_commits", sa.Integer, nullable=False),
        sa.Column("idle_rewrites", sa.Integer, nullable=False),
        sa.Column("idle_at", moment),
    )
    op.add_column("runs", sa.Column("owner", sa.String(128)))
    op.add_column("runs", sa.Column("executor", sa.String))
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE SEQUENCE run_numbers OWNED BY runs.number")
        op.execute("SELECT setval('run_numbers', (SELECT coalesce(max(number), 0) + 1 FROM runs), false)")
