# noqa: N999
"""What an approved deletion keeps, if its plan does not wait on the timeline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the column."""
    op.add_column("approvals", sa.Column("retained", sa.String(64)))
