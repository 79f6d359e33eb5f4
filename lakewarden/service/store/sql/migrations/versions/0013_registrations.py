"""The tables that are registered over the API."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the table. It is empty."""
    op.create_table(
        "registrations",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("entry", sa.Text),
        sa.Column("number", sa.Integer, nullable=False, unique=True),
        sa.Column("by", sa.String(64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )
