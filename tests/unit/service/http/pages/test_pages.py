"""The page over HTTP: what it shows, to which caller, and what a browser may do with it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx
import pytest

from lakewarden.cli.tables import state_of
from lakewarden.planners.model.table import DeletionBudget
from lakewarden.service.http.access.callers import KEY_COOKIE
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.page.rendering import STATIC
from tests.support.daemon.daemon_harness import prepare
from tests.unit.service.http.conftest import ServedDaemon

BROWSER = {"accept": "text/html,application/xhtml+xml", "host": "127.0.0.1"}
KEYS = {
    b"alice's key": Caller(name="alice", role=Role.OPERATOR, key="1"),
    b"vera's key": Caller(name="vera", role=Role.VIEWER, key="2"),
    b"writer's key": Caller(name="writer", role=Role.HOOK, key="4"),
    b"other's key": Caller(name="other", role=Role.VIEWER, tables=("lake.*",), key="3"),
}
PAGES = ["/", "/tables/trips", "/runs", "/acts"]


@pytest.fixture
def guarded(start_served: Callable[..., ServedDaemon]) -> ServedDaemon:
    """Return a daemon that asks for keys."""
    return start_served(identify=KEYS.get)


@contextmanager
def _signed_in(served: ServedDaemon, who: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.api.base_url, headers={"accept": "text/html"}) as client:
        assert client.post("/sign-in", data={"key": f"{who}'s key", "to": "/"}).status_code == 303
        yield client


@pytest.mark.parametrize("path", PAGES)
def test_a_page_loads_nothing_from_elsewhere_and_runs_no_script_of_its_own_text(
    served: ServedDaemon, path: str
) -> None:
    """Its policy says so, and so does its text: no inline script, no inline style, no address of another host."""
    answer = served.api.get(path)

    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]* src=\"/static/)", answer.text)
    assert not re.search(r"<style|style=|\son\w+=", answer.text)
    assert not re.findall(r"(?:src|href|action)=\"(?!/|#)", answer.text)
    assert "cookie" not in answer.headers["cache-control"]
    assert answer.headers["cache-control"] == "no-store"


def test_the_first_page_shows_each_table_with_its_condition(served: ServedDaemon) -> None:
    """And leads to the page of the table."""
    text = served.api.get("/").text

    assert '<a href="/tables/trips">trips</a>' in text
    assert "<b>1</b> table</a>" in text
    assert "<b>1</b> ok" in text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?search=tri", True),
        ("?search=tr*", True),
        ("?search=lake*", False),
        ("?format=fake", True),
        ("?format=iceberg", False),
        ("?condition=ok", True),
        ("?condition=failing", False),
        ("?sort=bytes", True),
        ("?page=2", False),
    ],
)
def test_the_list_has_the_tables_that_are_asked_for(served: ServedDaemon, query: str, shown: bool) -> None:
    """By search, format and condition."""
    assert ('<a href="/tables/trips">' in served.api.get(f"/{query}").text) == shown


def test_what_needs_a_person_is_on_the_first_page_with_the_remedy(make_served: Callable[..., ServedDaemon]) -> None:
    """A deletion that waits for an approval, and where to approve it. The list of a terminal has the same words."""
    served = make_served(budget=DeletionBudget(files=0))
    prepare(served.lake)
    served.start()
    served.look()
    served.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
    served.moments.ending()
    served.moments.decision()

    assert "waiting for approval" in served.api.get("/").text
    assert "Approve the deletion" in served.api.get("/tables/trips").text
    (table,) = served.api.get("/v1/tables").json()["items"]
    assert state_of(table) == "waiting for approval: clean"


def test_the_page_of_a_table_draws_its_timeline(served: ServedDaemon) -> None:
    """Each commit is a bar with its title."""
    text = served.api.get("/tables/trips").text

    assert len(re.findall(r'<rect class="writer"', text)) >= 1
    assert "3 writes" in text


def test_the_timeline_shows_the_window_that_is_asked_for(served: ServedDaemon) -> None:
    """Before the first commit nothing happened."""
    long_ago = datetime(2001, 1, 1, tzinfo=UTC).isoformat()
    answer = served.api.get("/tables/trips", params={"span": "1y", "until": long_ago})

    assert "2001-01-01 00:00:00 UTC: nothing happened" in answer.text


def test_a_run_has_a_page_with_its_steps(served: ServedDaemon) -> None:
    """From the list of runs one gets there."""
    run = served.api.post("/v1/tables/trips/services/clean/runs").json()["id"]
    served.moments.ending()

    assert f'href="/runs/{run}"' in served.api.get("/runs").text
    assert f'href="/runs/{run}"' in served.api.get("/runs?table=trips&service=clean&state=all").text
    for other in ("service=compaction", "table=orders", "state=failed"):
        assert f'href="/runs/{run}"' not in served.api.get(f"/runs?{other}").text, other
    text = served.api.get(f"/runs/{run}").text
    assert all(step in text for step in ("plan <small>", "execute <small>", "commit <small>"))
    assert served.api.get("/runs/none").status_code == 404


def test_a_browser_without_a_key_is_led_to_the_form_and_back(guarded: ServedDaemon) -> None:
    """A program gets 401 as before. A signed-in browser gets the page, also of `/v1`."""
    with httpx.Client(base_url=guarded.api.base_url, headers=BROWSER) as browser:
        led = browser.get("/tables/trips?span=1h")
        assert (led.status_code, led.headers["location"]) == (303, "/sign-in?to=%2Ftables%2Ftrips%3Fspan%3D1h")
        assert browser.get(led.headers["location"]).status_code == 200
        signed = browser.post("/sign-in", data={"key": "alice's key", "to": "/tables/trips?span=1h"})
        assert (signed.status_code, signed.headers["location"]) == (303, "/tables/trips?span=1h")
        cookie = signed.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=lax", "path=/"))
        assert "alice (operator)" in browser.get("/tables/trips").text
        assert browser.get("/v1/tables").status_code == 200
        assert browser.post("/sign-out").status_code == 303
        assert browser.get("/").status_code == 303
    assert guarded.api.get("/").status_code == 401


@pytest.mark.parametrize(
    ("key", "said"),
    [
        *((key, "unknown, has expired") for key in ("nothing", "", "schlüssel")),
        ("writer's key", "The role is hook, and pages need the role viewer."),
    ],
)
def test_a_wrong_key_is_refused_in_the_form(guarded: ServedDaemon, key: str, said: str) -> None:
    """And no cookie is set. A writer's key would lead from one error to the next."""
    answer = guarded.api.post("/sign-in", data={"key": key})
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert said in answer.text


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_the_form_leads_to_pages_of_ours_only(guarded: ServedDaemon, to: str) -> None:
    """An address elsewhere becomes the first page."""
    answer = guarded.api.post("/sign-in", data={"key": "vera's key", "to": to})
    assert answer.headers["location"] == "/"


def test_a_cookie_that_was_set_over_https_is_sent_over_https_only(guarded: ServedDaemon) -> None:
    """A proxy ends the TLS: the browser says in `Origin` how it came."""
    origin = {"origin": f"https://127.0.0.1:{guarded.port}"}
    answer = guarded.api.post("/sign-in", data={"key": "vera's key"}, headers=origin)
    assert answer.status_code == 403 or "secure" in answer.headers["set-cookie"].lower()


def test_a_caller_sees_its_tables_and_the_buttons_of_its_role(guarded: ServedDaemon) -> None:
    """A viewer has no buttons. A viewer of other tables does not even learn that the table exists."""
    guarded.api.headers["X-API-Key"] = "alice's key"
    run = guarded.api.post("/v1/tables/trips/services/clean/runs").json()["id"]
    with _signed_in(guarded, "alice") as alice, _signed_in(guarded, "vera") as vera:
        assert "Run now" in alice.get("/tables/trips").text
        page = alice.get("/tables/trips").text
        assert ">Pause<" in page
        assert "Pause trips? Active runs stop after their current step" in page, "what becomes of a run is said before"
        assert "<button hx-" not in vera.get("/tables/trips").text
        assert (alice.get("/acts").status_code, vera.get("/acts").status_code) == (403, 403)
        assert "Audit log" not in vera.get("/").text, "a menu has what the role may see"
    with _signed_in(guarded, "other") as other:
        assert "trips" not in other.get("/").text
        assert "trips" not in other.get("/runs").text
        assert other.get("/tables/trips").status_code == 403
        assert other.get(f"/runs/{run}").status_code == 404


def test_a_key_in_a_header_goes_before_the_cookie(guarded: ServedDaemon) -> None:
    """A cookie is sent by itself, a header on purpose."""
    headers = {"X-API-Key": "vera's key", "cookie": f"{KEY_COOKIE}=alice's key"}
    assert "vera (viewer)" in guarded.api.get("/", headers=headers).text


def test_a_page_of_another_site_cannot_use_the_cookie(guarded: ServedDaemon) -> None:
    """A form there may send what it likes: its origin is not ours."""
    with _signed_in(guarded, "alice") as alice:
        answer = alice.post("/v1/tables/trips/pause", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403


def test_static_files_are_kept_by_browsers_for_as_long_as_they_do_not_change(served: ServedDaemon) -> None:
    """Their address has the hash of their content. Together they are small."""
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', served.api.get("/").text)
    answers = [served.api.get(address) for address in addresses]

    assert len(addresses) == 5
    assert all("immutable" in answer.headers["cache-control"] for answer in answers)
    assert sum(len(answer.content) for answer in answers) < 150_000
    assert served.api.get("/static/../page.py").status_code == 404


@pytest.mark.parametrize("name", ["htmx.min.js", "idiomorph-ext.min.js"])
def test_the_scripts_of_others_are_those_that_were_released(name: str) -> None:
    """Htmx 2.0.11 and idiomorph 0.7.4, as their authors published them. Their checksums lie beside them."""
    digest, named = (STATIC / f"{name}.sha256").read_text().split()
    assert (named, hashlib.sha256((STATIC / name).read_bytes()).hexdigest()) == (name, digest)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_sent_again_only_if_it_has_changed(served: ServedDaemon, path: str) -> None:
    """A browser that has the page gets 304 without a body. The age of a commit is no change. A pause is one."""
    address = path + ("?span=1y&until=2001-01-01T00:00:00Z" if path == "/tables/trips" else "")
    first = again = served.api.get(address)
    while again.status_code == 200:  # the table may be observed meanwhile, now and then
        first, again = again, served.api.get(address, headers={"if-none-match": again.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])

    served.api.post("/v1/tables/trips/pause", json={"reason": "a migration"}).raise_for_status()
    if path in ("/", "/tables/trips", "/acts"):
        assert served.api.get(address, headers={"if-none-match": first.headers["etag"]}).status_code == 200
