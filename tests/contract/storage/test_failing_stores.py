"""If a store does not answer, or answers that it is too busy, the error is temporary and comes soon."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.settings import S3Store
from tests.support.serving import Handler, serving

PLACE = "s3://lake/trips/.hoodie"


def _reached_at(port: int, *, timeout: str) -> Storage:
    endpoint = f"http://127.0.0.1:{port}"
    store = S3Store.model_validate(
        {"prefix": "s3://lake", "endpoint": endpoint, "path_style": True, "anonymous": True, "timeout": timeout}
    )
    return Storages([store]).of(PLACE)


@pytest.fixture
def busy() -> Iterator[int]:
    """Start a store that is too busy for every request, and return its port."""

    class Busy(Handler):
        def do_GET(self) -> None:
            self.answer(503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")

    with serving(Busy) as port:
        yield port


def test_a_store_that_takes_no_notice_is_given_up_after_the_timeout() -> None:
    """The store accepts the connection and never answers. The driver's own retries are cut short."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        storage = _reached_at(mute.getsockname()[1], timeout="1s")
        for ask in (storage.stamp, storage.listing, storage.read):
            with pytest.raises(TemporaryError):
                ask(PLACE)


def test_a_store_that_is_too_busy_is_quoted(busy: int) -> None:
    """The reason at the table has the store's own words."""
    with pytest.raises(TemporaryError, match="reduce your request rate"):
        _reached_at(busy, timeout="20s").listing(PLACE)
