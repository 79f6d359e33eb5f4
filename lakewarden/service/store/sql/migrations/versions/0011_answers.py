"""The answers to requests that act, by the keys of the requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the table. It is empty."""
    op.create_table(
        "answers",
        sa.Column("caller", sa.String(64), primary_key=True),
        sa.Column("route", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("replica", sa.String(128), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.Text),
    )
    op.create_index("answers_by_caller", "answers", ["caller", "created_at"])
    op.create_index("answers_by_time", "answers", ["created_at"])
