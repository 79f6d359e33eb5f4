"""What others can make us say is said now and then, and what was withheld is counted."""

from __future__ import annotations

import io
import logging
from datetime import timedelta

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.service.events import Sampler
from lakewarden.service.process.logs import Sampled


def test_a_kind_is_told_some_times_a_minute() -> None:
    """The first ones at once; after a minute the next one says how many were withheld."""
    clock = ManualClock()
    sampler = Sampler(per_minute=2, now=clock.monotonic)

    assert [sampler.admit("a") for _ in range(5)] == [0, 0, None, None, None]
    assert sampler.admit("b") == 0
    clock.advance(timedelta(seconds=60))
    assert [sampler.admit("a"), sampler.admit("a")] == [3, 0]


def test_kinds_without_number_are_not_kept() -> None:
    """A kind that a sender makes up costs no memory, and no line either."""
    clock = ManualClock()
    sampler = Sampler(now=clock.monotonic)

    told = [sampler.admit(number) for number in range(5000)]

    assert told.count(0) == 1000
    clock.advance(timedelta(seconds=61))
    assert sampler.admit("new") == 0


def test_a_librarys_line_is_not_repeated_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that makes a library warn fills no disk."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(Sampled())
    logger = logging.getLogger("some.library")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)

    for number in range(1000):
        logger.warning("request %s", number)

    assert stream.getvalue().count("\n") == 10
