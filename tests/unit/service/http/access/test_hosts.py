"""Which names and pages are ours: senders that are no browser need no setting."""

from __future__ import annotations

import socket

import pytest

from lakewarden.service.http.access.browsers import Hosts
from lakewarden.service.model.problems import FOREIGN_ORIGIN, UNKNOWN_HOST

OURS = Hosts(["lakewarden.example.com"])


def _refuses(method: str, host: str | None, origin: str | None = None, *, hint: bool = False) -> object:
    return OURS.refuses(method=method, host=host, origin=origin, site=None, hint=hint)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8080", "localhost:8080", "[::1]:8080", "10.2.3.4", "lakewarden", "lakewarden:8080"),
        *("lakewarden.data.svc:8080", "lakewarden.data.svc.cluster.local", "LakeWarden.Example.com.:8080"),
        *(socket.gethostname(), None),
    ],
)
def test_what_senders_call_us_by_is_taken(host: str | None) -> None:
    """Addresses, names that only our own network knows, and those of the configuration."""
    assert _refuses("POST", host) is None


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "a.b:x:y", "[::1"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_name_that_was_bound_to_our_address_is_not_ours(host: str, method: str) -> None:
    """A page of that name could read and change everything (DNS rebinding)."""
    assert _refuses(method, host, f"http://{host}") in (UNKNOWN_HOST, FOREIGN_ORIGIN)


def test_a_hook_may_call_us_by_any_name() -> None:
    """It is a hint: writers behind a name that nobody told us of are not turned away."""
    assert _refuses("POST", "lake.example.org", hint=True) is None


def test_a_page_may_not_send_a_hook_to_its_own_name_at_our_address() -> None:
    """Its name was bound to our address after it was loaded. A writer sends no `Origin`."""
    assert _refuses("POST", "evil.example", "http://evil.example", hint=True) is UNKNOWN_HOST


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:3000", "https://127.0.0.1", "", "http://[", "x"]
)
@pytest.mark.parametrize("hint", [True, False])
def test_another_page_may_not_send(origin: str, *, hint: bool) -> None:
    """Neither to change something nor to have tables looked at; asking is the browser's matter."""
    assert _refuses("POST", "127.0.0.1:8080", origin, hint=hint) is FOREIGN_ORIGIN
    assert _refuses("DELETE", "127.0.0.1:8080", origin, hint=hint) is FOREIGN_ORIGIN
    assert _refuses("GET", "127.0.0.1:8080", origin, hint=hint) is None


def test_our_own_pages_may_send() -> None:
    """The API's documentation is one; behind a proxy that ends TLS its origin is another scheme."""
    assert _refuses("POST", "127.0.0.1:8080", "http://127.0.0.1:8080") is None
    assert _refuses("POST", "localhost", "http://localhost:80") is None
    assert _refuses("POST", "10.2.3.4:8080", "https://lakewarden.example.com") is None


def test_a_browser_that_hides_the_origin_still_says_where_it_is() -> None:
    """`Sec-Fetch-Site` cannot be set by a page."""
    for site, refusal in {"cross-site": FOREIGN_ORIGIN, "same-site": FOREIGN_ORIGIN, "none": None}.items():
        assert OURS.refuses(method="POST", host="localhost", origin=None, site=site, hint=False) is refusal
