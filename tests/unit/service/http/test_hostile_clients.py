"""Clients that mean harm, to real servers: probes and hooks are answered beside all of them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx
import pytest
from fastapi import FastAPI

from lakewarden.planners.model.errors import UnknownError
from lakewarden.service.http.connections import PortLimits
from lakewarden.service.http.server import HttpServer
from tests.support.hostile.hostile_clients import ATTACKS, HOOK, Outcome, Target
from tests.unit.service.http.conftest import ServedDaemon

HURRIED = PortLimits(connections=64, bodies=4 * 2**20, patience=timedelta(seconds=2))


@pytest.fixture
def hurried(make_served: Callable[..., ServedDaemon]) -> ServedDaemon:
    """Return a running daemon whose ports have short timeouts."""
    served = make_served(limits=HURRIED)
    served.lake.write()
    served.start()
    served.look()
    return served


def _port(served: ServedDaemon, name: str) -> int:
    client = served.api if name == "api" else served.management
    return client.base_url.port or 0


@contextmanager
def _under(attack: str, target: Target) -> Iterator[list[Outcome]]:
    """Attack for as long as the bracket is open; what became of it is there afterwards."""
    outcomes: list[Outcome] = []

    async def run() -> Outcome:
        return await ATTACKS[attack](target)

    thread = threading.Thread(target=lambda: outcomes.append(asyncio.run(run())))
    thread.start()
    try:
        yield outcomes
    finally:
        thread.join()


def _alive(served: ServedDaemon) -> int:
    with socket.create_connection(("127.0.0.1", _port(served, "management")), timeout=5) as probe:
        probe.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return int(probe.recv(100).split()[1])


@pytest.mark.parametrize("port", ["api", "management"])
@pytest.mark.parametrize("attack", ["silent", "slow_heads", "slow_bodies"])
def test_who_occupies_a_port_is_made_to_leave(hurried: ServedDaemon, port: str, attack: str) -> None:
    """Three times as many as may connect: probes and hooks are answered meanwhile, and none of them is there after.

    On a busy machine a hook may be told to come again (503), as its sender does.
    """
    with _under(attack, Target(port=_port(hurried, port), count=192, seconds=10)) as outcomes:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            assert _alive(hurried) == 200
            time.sleep(0.1)
        hooks = [hurried.api.post(HOOK, json={"basePath": "/nowhere"}).status_code]
        while hooks[-1] == 503 and len(hooks) < 20:
            time.sleep(0.1)
            hooks.append(hurried.api.post(HOOK, json={"basePath": "/nowhere"}).status_code)
        assert hooks[-1] == 202

    assert (outcomes[0].held, outcomes[0].answers.get(200, 0)) == (0, 0)


def test_stalled_uploads_cost_little_and_end(hurried: ServedDaemon) -> None:
    """Of each only the beginning is kept; after its time it is closed."""
    with _under("stalled_uploads", Target(port=_port(hurried, "api"), count=40, seconds=10)) as outcomes:
        time.sleep(0.5)
        assert hurried.api.post(HOOK, json={"basePath": "/nowhere"}).status_code == 202

    assert outcomes[0].held == 0


def test_bodies_in_tiny_chunks_keep_no_hook_from_its_answer(served: ServedDaemon) -> None:
    """A chunked body is a body as any other, and has the same limit."""
    with _under("tiny_chunks", Target(port=_port(served, "api"), count=50, seconds=5)) as outcomes:
        assert served.api.post(HOOK, json={"basePath": "/nowhere"}).status_code == 202

    assert outcomes[0].connected == 50


@pytest.mark.long
def test_an_answer_that_is_not_read_is_given_up(hurried: ServedDaemon) -> None:
    """However much more the client asks for."""
    with _under("deaf_readers", Target(port=_port(hurried, "api"), count=10, seconds=30)) as outcomes:
        assert hurried.api.post(HOOK, json={"basePath": "/nowhere"}).status_code == 202

    assert (outcomes[0].closed, outcomes[0].held) == (10, 0)


@pytest.mark.parametrize(
    ("attack", "status"),
    [
        ("length_and_chunks", 400),
        ("nonsense", 400),
        ("huge_base_path", 400),
        ("lone_surrogate", 400),
        ("cross_origin", 403),
        ("rebound", 421),
    ],
)
def test_what_means_harm_is_refused_at_once_and_in_few_words(
    served: ServedDaemon, attack: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fifty of each are answered in a moment, and the log has grown by some lines, none of them a traceback."""
    served.api.get("/v1/tables")
    capfd.readouterr()
    with _under(attack, Target(port=_port(served, "api"), count=50, seconds=300)) as outcomes:
        pass

    said = "".join(capfd.readouterr())
    assert set(outcomes[0].answers) == {status}
    assert outcomes[0].answered + outcomes[0].closed == 50  # who still sends may not hear the answer
    assert len(said) < 2000
    assert "Traceback" not in said


@pytest.mark.parametrize(("attack", "status"), [("long_url", 414), ("long_head", 431)])
def test_a_long_head_is_refused(served: ServedDaemon, attack: str, status: int) -> None:
    """One that comes in pieces is refused by h11 before its end, with 400."""
    with _under(attack, Target(port=_port(served, "api"), count=50, seconds=10)) as outcomes:
        pass

    assert set(outcomes[0].answers) <= {400, status}
    assert outcomes[0].answered + outcomes[0].closed == 50


def test_what_is_refused_is_answered_as_every_error_is(served: ServedDaemon) -> None:
    """Code, message and remedy, also where no application was asked; and it is counted."""
    for port, client in (("api", served.api), ("management", served.management)):
        answer = client.get("/" + "a" * 9000)
        assert (answer.status_code, answer.json()["type"]) == (414, "urn:lakewarden:problem:too_large")
        assert served.metric("lakewarden_http_refused_total", port=port, kind="long_url") == 1
        nowhere = client.get("/nowhere")
        assert (nowhere.status_code, nowhere.json()["code"]) == (404, "not_found")


def test_a_request_for_another_daemons_name_changes_nothing(served: ServedDaemon) -> None:
    """Neither a page of another site nor one whose name was bound to our address pauses anything."""
    for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}, {"origin": "null"}):
        assert served.api.post("/v1/pause", headers=headers).status_code in (403, 421)
        assert served.api.delete("/v1/tables/trips/barrier", headers=headers).status_code in (403, 421)

    assert served.api.get("/v1/tables/trips").json()["paused"] is None
    assert served.api.get("/v1/tables", headers={"host": "evil.example"}).json()["remedy"]


def test_two_origins_are_none_and_no_page_of_ours_runs_scripts_of_others(served: ServedDaemon) -> None:
    """A proxy may judge the other one; what another host's script sends comes from our origin."""
    two = [("origin", str(served.api.base_url).rstrip("/")), ("origin", "http://evil.example")]
    assert served.api.post("/v1/pause", headers=two).status_code == 403
    assert served.api.get("/docs").status_code == 404


def test_a_redirect_leads_nowhere(served: ServedDaemon) -> None:
    """Where the sender's Host says, it could lead anywhere."""
    assert served.api.get("/v1/tables/").status_code == 404


@pytest.mark.parametrize("path", ["/v1/pause", "/v1/tables/trips/pause", "/v1/tables/trips/barrier"])
@pytest.mark.parametrize("content", [b'{"reason":"\\ud800"}', b'{"hold":"\\ud800"}', b"[" * 60_000, b'{"a":' * 10_000])
def test_a_body_of_nonsense_is_the_senders_trouble(
    served: ServedDaemon, path: str, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is refused in few words, and told of to nobody."""
    answer = served.api.post(path, content=content, headers={"content-type": "application/json"})

    assert (answer.status_code // 100, len(answer.content) < 500) == (4, True)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_body_that_is_not_declared_as_json_is_refused_with_what_to_send(served: ServedDaemon) -> None:
    """A form is what curl sends by itself."""
    answer = served.api.post("/v1/tables/trips/services/clean/runs", content=b"{}")

    assert (answer.status_code, answer.json()["remedy"]) == (
        422,
        "send the header Content-Type: application/json",
    )


def test_a_name_that_no_table_has_is_no_question_to_the_store(served: ServedDaemon) -> None:
    """A NUL is an error to PostgreSQL."""
    assert served.api.get("/v1/runs?table=%00").status_code == 422
    assert served.api.get("/v1/runs?table=" + "a" * 2000).status_code == 422
    assert served.api.get("/v1/tables/" + "a" * 2000).status_code == 404


def test_a_bug_is_told_of_some_times_a_minute(capfd: pytest.CaptureFixture[str]) -> None:
    """Who finds one cannot fill the disk with it."""

    async def broken(_scope: object, _receive: object, _send: object) -> None:
        raise RuntimeError("a bug")

    with (
        HttpServer(broken, name="api", host="127.0.0.1", port=0) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as api,
    ):
        answers = [api.get("/v1/tables").status_code for _ in range(30)]

    assert answers == [500] * 30
    assert 0 < "".join(capfd.readouterr()).count("unforeseen_error") <= 3


def test_a_port_that_ends_by_a_bug_ends_the_daemon(capfd: pytest.CaptureFixture[str]) -> None:
    """A daemon without its port would go on beside writers, and no client could ask it a thing."""
    told = threading.Event()
    server = HttpServer(FastAPI(), name="api", host="127.0.0.1", port=0).or_else(told.set)
    server._socket.close()

    with pytest.raises(UnknownError, match="the port api ended by a bug"), server:
        assert told.wait(timeout=60)

    assert "http_port_failed" in "".join(capfd.readouterr())


def test_a_hook_by_a_link_finds_its_table(served: ServedDaemon) -> None:
    """The link is resolved beside the loop."""
    link = served.lake.folder.parent / "link"
    link.symlink_to(served.lake.folder)
    served.lake.write()

    answer = served.api.post(HOOK, json={"basePath": f"file://{link}"})

    assert answer.json() == {"result": "accepted", "table": "trips"}


def test_a_mount_that_hangs_holds_up_no_hook(served: ServedDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer's path on it is not resolved; all other writers are answered at once."""
    hung, resolved = threading.Event(), list[object]()

    def hang(path: object, **_: object) -> object:
        resolved.append(path)
        hung.wait()
        return path

    monkeypatch.setattr(os.path, "realpath", hang)
    try:
        assert served.api.post(HOOK, json={"basePath": "/dead/mount"}).json()["result"] == "unknown_table"
        resolved.clear()
        assert served.api.post(HOOK, json={"basePath": str(served.lake.folder)}).json()["result"] == "accepted"
        assert not resolved
    finally:
        hung.set()


def test_the_rest_of_a_long_callback_is_not_read(served: ServedDaemon) -> None:
    """The table stands before the files; what is no JSON behind it costs nothing."""
    whole = json.dumps({"commitTime": "1", "basePath": str(served.lake.folder), "hoodieWriteStat": []})
    body = whole[:-2].encode() + b'{"a":' * 500_000

    assert served.api.post(HOOK, content=body).json() == {"result": "accepted", "table": "trips"}
