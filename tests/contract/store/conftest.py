"""Every store in turn, empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.service.store.memory import MemoryStore
from lakewarden.service.store.port import Store
from lakewarden.service.store.sql.sqlite import open_sqlite


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each store in turn."""
    opened = MemoryStore() if request.param == "memory" else open_sqlite(tmp_path / "lakewarden.db")
    yield opened
    opened.close()
