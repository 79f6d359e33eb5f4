"""A daemon that was started as a new user starts it: tokens of an issuer by HTTPS, and a port with TLS."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from lakewarden.demo.daemon import free_port
from lakewarden.service.http.access.callers import KEY_COOKIE
from tests.support.authority import Authority
from tests.support.issuer import Issuer, running_issuer


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    with running_issuer(tmp_path / "issuer") as made:
        yield made


class Served:
    """A running daemon with two directories, `sales.orders` and `hr.people`."""

    def __init__(self, folder: Path, issuer: Issuer) -> None:
        self.folder = folder
        self.api, self.management = free_port(), free_port()
        server = Authority(folder / "tls", "servers")
        certificate, key = server.issue("daemon")
        self.authority = server.certificate
        self.trusted = ssl.create_default_context(cafile=server.certificate)
        for name in ("orders", "people"):
            (folder / "lake" / name / "day=1").mkdir(parents=True)
        config = {
            "access": {
                "authentication": "keys",
                "issuers": [
                    {
                        "issuer": issuer.url,
                        "audience": ["lakewarden"],
                        "client_id": "lakewarden",
                        "client_secret": {"file": str(folder / "client-secret")},
                        "authority": str(issuer.authority),
                        "grants": [
                            {"claim": "groups", "value": "operators", "role": "operator", "tables": ["sales.*"]}
                        ],
                    }
                ],
            },
            "api": {"port": self.api, "tls": {"certificate": str(certificate), "key": str(key)}},
            "management": {"port": self.management},
            "defaults": {"mode": "observe", "poll": "1h"},
            "tables": [
                {"id": "sales.orders", "format": "directory", "path": str(folder / "lake" / "orders")},
                {"id": "hr.people", "format": "directory", "path": str(folder / "lake" / "people")},
            ],
        }
        (folder / "lakewarden.yaml").write_text(json.dumps(config))
        (folder / "client-secret").write_text("of the client\n")

    def get(self, path: str, token: str) -> httpx.Response:
        """Ask the API with a token."""
        url, headers = f"https://127.0.0.1:{self.api}{path}", {"Authorization": f"Bearer {token}"}
        return httpx.get(url, headers=headers, verify=self.trusted, timeout=30)

    def hook(self, table: str, token: str) -> httpx.Response:
        """Announce a commit with a token."""
        event = {"tableName": table, "basePath": str(self.folder / "lake" / table), "commitTime": "20260101000000000"}
        url = f"https://127.0.0.1:{self.api}/v1/hooks/hudi"
        return httpx.post(
            url, json=event, headers={"Authorization": f"Bearer {token}"}, verify=self.trusted, timeout=30
        )

    def metric(self, name: str) -> str:
        """Return the lines of a metric."""
        text = httpx.get(f"http://127.0.0.1:{self.management}/metrics", timeout=30).text
        return "\n".join(line for line in text.splitlines() if line.startswith(name))


@contextmanager
def _serving(served: Served) -> Iterator[None]:
    log = (served.folder / "daemon.log").open("wb")
    command = [sys.executable, "-m", "lakewarden.cli", "serve", "--config", "lakewarden.yaml"]
    process = subprocess.Popen(command, cwd=served.folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx.get(f"http://127.0.0.1:{served.management}/livez").is_success:
                    break
            except httpx.TransportError:
                pass
            assert process.poll() is None, (served.folder / "daemon.log").read_text()
            assert time.monotonic() < deadline, (served.folder / "daemon.log").read_text()
            time.sleep(0.1)
        yield
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(60)
        log.close()


def test_tokens_count_as_the_configuration_says(tmp_path: Path, issuer: Issuer) -> None:
    """A token sees its tables alone, and announces commits of its tables alone."""
    served = Served(tmp_path, issuer)
    with _serving(served):
        token = issuer.token()
        answer: Any = served.get("/v1/tables", token)
        assert answer.status_code == 200, answer.text
        assert "sales.orders" in answer.text
        assert "hr.people" not in answer.text
        assert served.get("/v1/tables/hr.people", token).status_code == 403
        assert served.get("/v1/audit", token).status_code == 403
        assert served.get("/v1/tables", issuer.token(aud="another")).status_code == 401
        assert served.get("/v1/tables", issuer.token(groups=["strangers"])).status_code == 403
        assert served.get("/v1/tables", issuer.token(exp=1)).status_code == 401

        heard, unheard = served.hook("orders", token), served.hook("people", token)
        assert heard.json() == {"result": "accepted", "table": "sales.orders"}
        assert unheard.json() == {"result": "unknown_table", "table": None}
        assert served.hook("orders", issuer.token(aud="another")).status_code == 401

        refused = served.metric("lakewarden_http_refused_total")
        assert 'kind="bad_token",port="api"} 3.0' in refused
        assert 'kind="no_role",port="api"} 1.0' in refused


@contextmanager
def _browser(served: Served, issuer: Issuer) -> Iterator[httpx.Client]:
    """Yield what a person has: a browser that follows redirects, and trusts both servers."""
    both = ssl.create_default_context(cafile=issuer.authority)
    both.load_verify_locations(cafile=served.authority)
    url, headers = f"https://127.0.0.1:{served.api}", {"Accept": "text/html"}
    with httpx.Client(base_url=url, verify=both, headers=headers, follow_redirects=True, timeout=30) as browser:
        yield browser


def test_a_person_signs_in_with_the_login_of_the_company(tmp_path: Path, issuer: Issuer) -> None:
    """The page that was asked for comes next. The token in the cookie counts as one in a header does."""
    served = Served(tmp_path, issuer)
    with _serving(served), _browser(served, issuer) as browser:
        form = browser.get("/tables/sales.orders?span=1h")
        link = re.search(r'<a class="button primary" href="(/sign-in/with[^"]+)"', form.text)
        assert link is not None
        page = browser.get(html.unescape(link[1]))
        assert (page.status_code, str(page.url.raw_path, "ascii")) == (200, "/tables/sales.orders?span=1h")
        assert "Sign out" in page.text
        assert issuer.codes == {}
        assert browser.get("/tables/hr.people").status_code == 403
        assert "Sign in with" in browser.post("/sign-out").text
        assert browser.get("/").url.path == "/sign-in"


def test_a_sign_in_that_another_browser_began_or_the_issuer_refuses_signs_no_one_in(
    tmp_path: Path, issuer: Issuer
) -> None:
    """Each refusal says what to do, and leaves the form there."""
    served = Served(tmp_path, issuer)
    with _serving(served), _browser(served, issuer) as browser, _browser(served, issuer) as other:
        begin = (
            f"/sign-in/with?{urlencode({'issuer': issuer.url.removeprefix('https://'), 'to': '//elsewhere.example'})}"
        )
        led = browser.get(begin, follow_redirects=False)
        back = browser.get(led.headers["location"], follow_redirects=False).headers["location"]
        assert "Secure" in led.headers["set-cookie"]
        assert "HttpOnly" in led.headers["set-cookie"]

        stolen = other.get(back)
        assert (stolen.status_code, "did not begin this sign-in" in stolen.text) == (403, True)
        other.get(begin, follow_redirects=False)
        assert (other.get(back).status_code, issuer.codes != {}) == (403, True), "its state is another one"
        signed = browser.get(back)
        assert (signed.status_code, signed.url.path) == (200, "/"), "an address elsewhere is not followed"
        again = browser.get(back, follow_redirects=False)
        assert (again.status_code, KEY_COOKIE in again.headers.get("set-cookie", "")) == (403, False)

        for said, answer in ({"groups": ["strangers"]}, "gives no role"), ({"padding": "x" * 4000}, "fewer claims"):
            issuer.said = said
            refused = other.get(begin)
            assert (refused.status_code, answer in refused.text, "Sign in with" in refused.text) == (403, True, True)
        assert other.get("/").url.path == "/sign-in"
        assert other.get("/sign-in/with?issuer=unknown").status_code == 403
        issuer.stop()
        assert other.get(begin, follow_redirects=False).status_code == 503
