"""Approvals of deletions beyond the budget of a table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table of approvals."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "approvals",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("service", sa.String(32), primary_key=True),
        sa.Column("identity", sa.String(1024), nullable=False),
        sa.Column("instant", sa.String(64)),
        sa.Column("files", sa.Integer, nullable=False),
        sa.Column("files_in_table", sa.Integer),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("asked_at", moment, nullable=False),
        sa.Column("approved_by", sa.String(64)),
        sa.Column("approved_at", moment),
    )
