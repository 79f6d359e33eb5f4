"""The fixtures and settings of all tests."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator

import kazoo.retry
import pytest
from hypothesis import settings

from tests.support.object_stores.s3_server import S3Server

# On a shared machine the time of one example depends more on other processes than on the code.
# Whether a change may land does not depend on a draw: the examples of a test stay the same until the test changes.
settings.register_profile("lakewarden", deadline=None, report_multiple_bugs=False, derandomize=True)
# What `./dev test` tries: 30 instead of 100 for each property.
settings.register_profile("brief", settings.get_profile("lakewarden"), max_examples=30)
# To look for what those examples miss: pytest -m hypothesis --hypothesis-profile=explore
settings.register_profile("explore", deadline=None, report_multiple_bugs=False, max_examples=2000)
settings.load_profile("lakewarden")
kazoo.retry.random = random.Random()  # its threads would change the numbers that Hypothesis draws


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector from going through ten thousand tests and every module, again and again.

    Python's threshold of 700 objects takes a tenth of the time of the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(50_000)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Return the one S3 server of all tests. A test that needs it calls `start`."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()
