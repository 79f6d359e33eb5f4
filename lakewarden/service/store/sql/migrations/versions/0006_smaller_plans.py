"""How large the next plan of a service may be, after one that was too large."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add what is remembered of plans that were too large; nothing is, yet."""
    op.add_column("standings", sa.Column("largest_plan", sa.BigInteger))
    op.add_column("standings", sa.Column("smaller_until", sa.DateTime(timezone=True)))
    op.add_column("standings", sa.Column("smaller_reason", sa.Text))
