"""The largest allowed size of the next plan of a service, after one that was too large."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns for plans that were too large. There are none yet."""
    op.add_column("service_states", sa.Column("largest_plan", sa.BigInteger))
    op.add_column("service_states", sa.Column("smaller_until", sa.DateTime(timezone=True)))
    op.add_column("service_states", sa.Column("smaller_reason", sa.Text))
