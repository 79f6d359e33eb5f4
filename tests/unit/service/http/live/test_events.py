"""Following the changes of tables and runs, as a stream and as a list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.table import TableId
from lakewarden.service.events.feed import Feed
from lakewarden.service.http.live.runs import LiveRuns
from lakewarden.service.http.live.streams import STREAMS, STREAMS_BY_SENDER, Follower, Streams
from lakewarden.service.model.access import Caller, Role
from tests.support.values import a_run
from tests.unit.service.http.conftest import ServedDaemon

COMPACT = "/v1/tables/trips/services/compaction/runs"
STREAM = {"accept": "text/event-stream"}


def _events(answer: httpx.Response) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yield each event of a stream: its name, its id, its data."""
    name, event = "", None
    for line in answer.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            event = value
        elif field == "data":
            yield name, event, json.loads(value)
            name, event = "", None


def _newest(served: ServedDaemon) -> str:
    return str(served.api.get("/v1/events").json()["newest"])


def test_a_client_that_follows_sees_a_run_from_its_request_to_its_end(served: ServedDaemon) -> None:
    """The events come in order, with the run as the API shows it."""
    begin = _newest(served)
    with served.api.stream("GET", "/v1/events", headers={**STREAM, "last-event-id": begin}) as answer:
        run = httpx.post(f"{served.api.base_url}{COMPACT}").json()["id"]
        told = []
        for name, event, data in _events(answer):
            if name == "run":
                told.append((event, data["run"]))
                if data["run"]["ended_at"] is not None:
                    break

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert {body["id"] for _, body in told} == {run}
    assert told[0][1]["state"] == "QUEUED"
    assert told[-1][1]["state"] == "SUCCEEDED"
    numbers = [int(str(event).partition("-")[2]) for event, _ in told]
    assert numbers == sorted(numbers)


def test_a_client_that_comes_again_misses_nothing(served: ServedDaemon) -> None:
    """`Last-Event-ID` goes before the events that came meanwhile."""
    begin = _newest(served)
    run = served.api.post(COMPACT).json()["id"]
    served.moments.ending()

    with served.api.stream("GET", "/v1/events?kind=run", headers={**STREAM, "last-event-id": begin}) as answer:
        name, _, data = next(_events(answer))

    assert (name, data["run"]["id"]) == ("run", run)


@pytest.mark.parametrize("event", ["000000000000-1", "x", "", "-"])
def test_a_client_with_an_event_of_another_daemon_is_told_to_read_the_lists(served: ServedDaemon, event: str) -> None:
    """Its events cannot be compared with those of this daemon."""
    with served.api.stream("GET", f"/v1/events?after={event or 'none'}", headers=STREAM) as answer:
        name, _, data = next(_events(answer))

    assert (name, "read the lists again" in data["reason"]) == ("reset", True)


def test_a_list_of_events_leads_to_the_later_ones(served: ServedDaemon) -> None:
    """`newest` is the cursor of a client that asks again and again, and `next` that of the next page."""
    begin = _newest(served)
    served.api.post(COMPACT)
    served.moments.ending()

    first = served.api.get(f"/v1/events?after={begin}&kind=run&limit=1").json()
    second = served.api.get(f"/v1/events?after={first['next']}&kind=run").json()
    last = served.api.get(f"/v1/events?after={second['newest']}&kind=run").json()
    strange = served.api.get("/v1/events?after=000000000000-1").json()

    assert (len(first["items"]), first["complete"]) == (1, True)
    assert (second["items"][-1]["run"]["state"], second["next"]) == ("SUCCEEDED", None)
    assert last["items"] == []
    assert strange["complete"] is False


def test_a_client_sees_only_the_tables_of_its_key(make_served: Callable[..., ServedDaemon]) -> None:
    """Each event is judged by itself, in the list and in the stream."""
    keys = {b"all": ("*",), b"some": ("sales.*",)}

    def identify(key: bytes) -> Caller | None:
        return Caller(name="ann", role=Role.TRIGGER, tables=keys[key], key="1") if key in keys else None

    served = make_served(identify=identify)
    served.start()
    served.look()
    begin = served.api.get("/v1/events", headers={"x-api-key": "all"}).json()
    served.composed.status.changes().add_run(a_run(table=TableId("trips")))
    served.composed.status.changes().add_run(a_run("r2", table=TableId("sales.orders")))

    def listed(key: str) -> list[str]:
        found = served.api.get(f"/v1/events?kind=run&after={begin['newest']}", headers={"x-api-key": key}).json()
        return [one["table"] for one in found["items"]]

    headers = {**STREAM, "x-api-key": "some", "last-event-id": begin["newest"]}
    with served.api.stream("GET", "/v1/events", headers=headers) as answer:
        _, _, first = next(_events(answer))

    assert (listed("all"), listed("some")) == (["trips", "sales.orders"], ["sales.orders"])
    assert first["table"] == "sales.orders"


def test_a_stream_ends_when_its_key_is_revoked(make_served: Callable[..., ServedDaemon]) -> None:
    """A stream is no way around a revocation."""
    known = {b"key"}
    caller = Caller(name="ann", role=Role.VIEWER, key="1")
    served = make_served(identify=lambda key: caller if key in known else None)
    served.start()

    with served.api.stream("GET", "/v1/events", headers={**STREAM, "x-api-key": "key"}) as answer:
        known.clear()
        name, data = next((name, data) for name, _, data in _events(answer) if name == "end")

    assert (name, data["reason"]) == ("end", "the key of the client counts no more, or its rights have changed")


def test_one_address_follows_a_limited_number_of_times(served: ServedDaemon) -> None:
    """Another stream is refused with what to do. A stream that ended makes room."""
    url, answers = str(served.api.base_url), []
    clients = [httpx.Client(base_url=url) for _ in range(STREAMS_BY_SENDER)]
    for client in clients:
        answer = client.send(client.build_request("GET", "/v1/events", headers=STREAM), stream=True)
        lines = answer.iter_lines()
        next(lines)
        answers.append((answer, lines))  # without a reader of its lines the answer is closed

    refused = served.api.get("/v1/events", headers=STREAM)
    listed = served.api.get("/v1/events")
    for (answer, _), client in zip(answers, clients, strict=True):
        answer.close()
        client.close()

    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert listed.status_code == 200
    assert STREAMS_BY_SENDER < STREAMS


def test_a_slow_client_is_let_go_with_the_reason(served: ServedDaemon) -> None:
    """The feed keeps so many events. Nothing waits for a client that is further behind, and it costs no memory."""
    feed, plane = Feed(SystemClock(), kept=3), served.composed.status

    async def stays() -> None:
        return None

    async def followed() -> list[bytes]:
        streams = Streams(plane, feed, LiveRuns(plane, SystemClock()))
        chunks = streams.follow("192.0.2.1", Follower(admits=lambda _: True, may_stay=stays))
        seen = [await anext(chunks)]
        for _ in range(10):
            feed.add_run(a_run())
        seen.extend([chunk async for chunk in chunks])
        return seen

    last = asyncio.run(followed())[-1].decode()

    assert last.startswith("event: end\n")
    assert "more slowly" in last


def test_the_end_of_the_daemon_ends_each_stream(served: ServedDaemon) -> None:
    """A client knows that it may connect again, and the port closes at once."""
    with served.api.stream("GET", "/v1/events", headers=STREAM) as answer:
        served.composed.status.changes().close()
        name, _, data = next(_events(answer))

    assert (name, data["reason"]) == ("end", "the daemon ends")
