"""A short run of `./dev fuzz api`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.api import fuzz_api


@pytest.mark.long
def test_requests_meet_no_error_of_the_daemon_and_no_answer_that_openapi_does_not_know(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """On both ports of a started daemon: valid and invalid ones, one alone, and in a row with what answers named."""
    assert not fuzz_api(tmp_path, seconds=60, seed=1), capfd.readouterr().out[-6000:]
