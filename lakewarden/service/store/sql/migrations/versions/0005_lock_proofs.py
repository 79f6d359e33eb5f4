"""The evidence about the locks of tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "lock_proofs",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("identity", sa.String(1024), nullable=False),
        sa.Column("lock", sa.String, nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("witnessed", sa.Integer, nullable=False),
        sa.Column("several", sa.Boolean, nullable=False),
        sa.Column("without", sa.String(64)),
        sa.Column("seen_at", sa.DateTime(timezone=True)),
    )
