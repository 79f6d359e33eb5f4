"""The notices that operators have been sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the table. It is empty."""
    op.create_table(
        "notices",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("replica", sa.String(128), nullable=False),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True)),
        sa.Column("gone_at", sa.DateTime(timezone=True)),
    )
