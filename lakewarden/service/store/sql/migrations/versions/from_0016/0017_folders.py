# noqa: N999
"""The folders of tables that catalogs name: two tables in one folder must not be served."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "folders",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("location", sa.String(1024), nullable=False),
        sa.Column("folder", sa.String(64), nullable=False),
    )
    op.create_index("folders_by_folder", "folders", ["folder"])
