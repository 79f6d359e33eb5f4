"""What holds for every test, and what the contract tests and the integration tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.s3_server import S3Server

# On a shared machine the time of one example says more about the neighbours than about the code.
settings.register_profile("lakewarden", deadline=None)
settings.load_profile("lakewarden")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Know the one S3 server of all tests; whoever needs it calls `start`."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()
