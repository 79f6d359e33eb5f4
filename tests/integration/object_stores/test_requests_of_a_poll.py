"""How many requests a poll of an unchanged table sends to an object store: what docs/operate.md counts with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from uuid import uuid4

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import Storages
from tests.support.hudi.hudi_table import HudiTable
from tests.support.object_stores.fault_proxy import FaultProxy
from tests.support.object_stores.s3_server import S3Server


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    """Put a proxy before the S3 server, which counts the requests."""
    with FaultProxy(upstream=s3_server.port).running() as proxy:
        yield proxy


def _kind(request: str) -> str:
    return "LIST" if "list-type=2" in request else request.partition(" ")[0]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_poll_of_a_hudi_table_is_one_head_and_one_list(
    s3_server: S3Server, proxy: FaultProxy, tmp_path: Path, version: int
) -> None:
    """One LIST for each thousand entries of its timeline folder. Nothing is read while nothing has changed."""
    lake = HudiTable(tmp_path / "t", version=version, clock=ManualClock(), zone=UTC)
    for _ in range(4):
        lake.commit_write(lake.begin_write(), content=b'{"operationType": "UPSERT"}')
    s3_server.start()
    location = s3_server.upload(tmp_path / "t", f"poll-{uuid4().hex}")
    storage = Storages([s3_server.store(endpoint=proxy.endpoint)]).of(location)
    options = HudiTableOptions(writers="none", timeline_timezone="UTC")
    table = Table(id=TableId("t"), format="hudi", location=location, options=options)
    first = HUDI.token(table, storage)

    proxy.seen.clear()
    assert HUDI.token(table, storage) == first

    assert Counter(map(_kind, proxy.seen)) == {"HEAD": 1, "LIST": 1}
