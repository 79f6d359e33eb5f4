"""A new table of every format, for each test."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.formats.lives import LIVES, Life


@pytest.fixture(params=list(LIVES))
def born(request: pytest.FixtureRequest) -> Iterator[Callable[[], Life]]:
    """Return a function that makes a new table of one format."""
    live = LIVES[request.param]
    with tempfile.TemporaryDirectory() as folder:
        count = iter(range(10_000))
        yield lambda: live(Path(folder) / f"table{next(count)}")
