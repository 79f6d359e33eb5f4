# noqa: N999
"""The application of a run on a cluster: its executors may outlive the JVM of the run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column."""
    op.add_column("runs", sa.Column("application", sa.String))
