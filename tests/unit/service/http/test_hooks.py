"""Commit hooks: they are hints, answered at once whatever they bring."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lakewarden.service.http.request_limits import BODY_BYTES
from tests.unit.service.http.conftest import ServedDaemon

HOOK = "/v1/hooks/hudi"
REPORT = "/v1/hooks/iceberg/v1/lake/namespaces/sales%1Feu/tables/orders/metrics"
HEADERS = {
    "HUDI-CALLBACK-KEY": "hudi_write_commit_http_callback",
    "Content-Type": "application/json; charset=UTF-8",
    "User-Agent": "Apache-HttpClient/4.5.14",
}


def _message(base_path: object) -> dict[str, object]:
    """Return what a stock writer of Hudi sends after a commit."""
    return {
        "commitTime": "20260501120000000",
        "tableName": "trips",
        "basePath": base_path,
        "hoodieWriteStat": [{"fileId": "f-0", "path": "p/f-0.parquet", "numWrites": 3}],
        "commitActionType": {"empty": False, "present": True},
        "extraMetadata": {"empty": False, "present": True},
    }


@pytest.mark.parametrize("sender", ["hudi", "paimon"])
def test_a_hook_has_its_table_looked_at(served: ServedDaemon, sender: str) -> None:
    """The next look was an hour away; the hook brings it at once."""
    served.lake.write()
    if sender == "hudi":
        answer = served.api.post(HOOK, headers=HEADERS, content=json.dumps(_message(served.lake.folder.as_uri())))
        assert (answer.status_code, answer.json()) == (202, {"result": "accepted", "table": "trips"})
    else:
        report = {"params": None, "table": "db.t", "path": str(served.lake.folder), "partition": "dt=2026-01-01/"}
        assert served.api.post("/v1/hooks/paimon", json=report).json() == {"result": "SUCCESS"}
    assert served.moments.decision().reason == "4 of 1000 commits since the last one"
    assert served.metric("lakewarden_hooks_total", sender=sender, result="accepted") == 1


def test_a_table_that_is_not_ours_troubles_no_writer(served: ServedDaemon) -> None:
    """Writers may send hooks for every table they have."""
    answer = served.api.post(HOOK, json=_message("s3a://bucket/elsewhere"))

    assert (answer.status_code, answer.json()) == (202, {"result": "unknown_table", "table": None})
    assert served.metric("lakewarden_hooks_total", sender="hudi", result="unknown_table") == 1


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"[]", b"{}", b'{"basePath": 3}', b'{"basePath": "relative"}', b"[" * 100_000]
)
def test_nonsense_is_refused_and_counted(served: ServedDaemon, content: bytes) -> None:
    """A sender that is no Hudi writer learns so, and so does one that is set up as a mirror of a catalog."""
    mirrored = served.api.post(REPORT, content=b"[]")
    answer = served.api.post(HOOK, content=content)

    assert (mirrored.status_code, mirrored.json()["code"]) == (400, "malformed")
    assert served.metric("lakewarden_hooks_total", sender="iceberg", result="malformed") == 1

    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert served.metric("lakewarden_hooks_total", sender="hudi", result="malformed") == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", b'{"path": 3}', b"[" * 100_000, b'{"path": "/elsewhere"}', b"x" * (BODY_BYTES // 2)],
)
def test_a_report_that_a_partition_is_done_is_a_success_whatever_it_brings(
    served: ServedDaemon, content: bytes
) -> None:
    """Any other answer makes a Flink job restart."""
    answer = served.api.post("/v1/hooks/paimon", content=content)

    assert (answer.status_code, answer.json()) == (200, {"result": "SUCCESS"})


@pytest.mark.parametrize(("kind", "result"), [("commit-report", "unknown_table"), ("scan-report", "ignored")])
def test_reports_trouble_no_writer(served: ServedDaemon, kind: str, result: str) -> None:
    """A catalog is told of every commit and every scan of all its tables: each is answered as the catalog would."""
    answer = served.api.post(REPORT, json={"report-type": kind})

    assert answer.status_code == 204
    assert served.metric("lakewarden_hooks_total", sender="iceberg", result=result) == 1


def test_another_path_of_a_catalog_is_told_how_hooks_look(served: ServedDaemon) -> None:
    """A mirror of too much is seen at once."""
    answer = served.api.post("/v1/hooks/iceberg/v1/namespaces/sales/tables", json={})

    assert answer.status_code == 404
    assert "namespaces/NAMESPACE/tables/TABLE/metrics" in answer.json()["detail"]


def _endless() -> Iterator[bytes]:
    for _ in range(BODY_BYTES // 2**20 + 1):
        yield b" " * 2**20


@pytest.mark.parametrize(("path", "sender"), [(HOOK, "hudi"), (REPORT, "iceberg")])
@pytest.mark.parametrize("announced", [True, False])
def test_a_body_is_bounded_whether_its_length_is_announced_or_not(
    served: ServedDaemon, path: str, sender: str, *, announced: bool
) -> None:
    """No sender can fill the daemon's memory."""
    content = b" " * (BODY_BYTES + 1) if announced else _endless()

    answer = served.api.post(path, content=content)

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert served.metric("lakewarden_hooks_total", sender=sender, result="too_large") == 1


def test_every_other_body_is_bounded_too(served: ServedDaemon) -> None:
    """The bound is the server's, not the hook's."""
    assert served.api.post("/v1/pause", content=_endless()).status_code == 413
