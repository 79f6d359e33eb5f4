"""The schema of the first release. A new store is made from `schema.py` as a whole, so this step does nothing."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing."""
