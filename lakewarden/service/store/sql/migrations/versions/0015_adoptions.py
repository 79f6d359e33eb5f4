"""The adoptions of tables, and what was seen of their writers: hooks and heartbeats."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "writer_signs",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("hook_at", sa.DateTime(timezone=True)),
        sa.Column("beat_at", sa.DateTime(timezone=True)),
    )
    op.create_table(
        "adoptions",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("wave", sa.Integer, nullable=False),
        sa.Column("asked_by", sa.String(64), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("setback", sa.Text),
        sa.Column("setback_at", sa.DateTime(timezone=True)),
    )
