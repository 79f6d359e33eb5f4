"""Why a deletion waits for an operator, beside the budget."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the columns. A deletion that waits now is beyond the budget."""
    op.add_column("approvals", sa.Column("first", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("approvals", sa.Column("shorter", sa.Text))
