"""The audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the table. It is empty."""
    op.create_table(
        "acts",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.String(64), nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("table_id", sa.String(255)),
        sa.Column("service", sa.String(32)),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("acts_by_table", "acts", ["table_id", "number"])
    op.create_index("acts_by_time", "acts", ["at"])
