"""The history of decisions, and the points of debt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the tables. The history begins with the last decisions. There are no points."""
    op.create_table(
        "decision_changes",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("table_id", sa.String(255), nullable=False),
        sa.Column("service", sa.String(32), nullable=False),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("remedy", sa.Text),
        sa.Column("again_at", sa.DateTime(timezone=True)),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("decision_changes_by_service", "decision_changes", ["table_id", "service", "decided_at"])
    op.create_index("decision_changes_by_table", "decision_changes", ["table_id", "number"])
    columns = "table_id, service, decision, reason, remedy, again_at, decided_at"
    op.execute(f"INSERT INTO decision_changes ({columns}) SELECT {columns} FROM decisions ORDER BY decided_at")  # noqa: S608
    op.create_table(
        "debt",
        sa.Column("table_id", sa.String(255), primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("replica", sa.String(128), primary_key=True),
        sa.Column("grain", sa.Integer, nullable=False),
        sa.Column("tables", sa.Integer, nullable=False),
        sa.Column("services", sa.JSON, nullable=False),
    )
    op.create_index("debt_by_grain", "debt", ["grain", "at"])
