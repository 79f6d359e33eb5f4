"""What the tests of signals need."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def hang_ups_are_not_ignored() -> Iterator[None]:
    """Let SIGHUP do what it does by default. Under nohup it is ignored, and the daemon leaves an ignored signal so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
