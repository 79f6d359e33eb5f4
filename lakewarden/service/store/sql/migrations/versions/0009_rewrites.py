"""Rewrites of all files that operators have asked for, and the runs that carry them out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the table, and the columns of the runs. No run of earlier versions is of this kind."""
    op.create_table(
        "rewrites",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("service", sa.String(32), primary_key=True),
        sa.Column("identity", sa.String(1024), nullable=False),
        sa.Column("mark", sa.String(64), nullable=False),
        sa.Column("asked_by", sa.String(64), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.add_column("runs", sa.Column("rewrite_all", sa.String(64)))
    op.add_column("runs", sa.Column("dry_run", sa.Boolean))
