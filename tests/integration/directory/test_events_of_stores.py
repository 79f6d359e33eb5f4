"""A store announces a late file in a partition that no poll lists, and a started daemon commits the partition again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.object_stores.s3_server import BUCKET, S3Server

pytestmark = pytest.mark.spark

HOURS = 8


@dataclass
class Clicks:
    """Files on S3 by hours, more of them than each poll lists."""

    server: S3Server
    place: str = field(default_factory=lambda: f"{BUCKET}/{uuid4().hex}")

    @property
    def configured(self) -> Mapping[str, Any]:
        options = {"quiet_for": "1s", "quiet_intervals": 0, "list_all_every": "1d"}
        return {"format": "directory", "path": f"s3://{self.place}", "options": options}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        return {}

    def write(self, hour: int, name: str) -> str:
        """Write a file, and return its key."""
        key = f"{self.place.partition('/')[2]}/dt=2026-03-01/hour={hour:02d}/{name}"
        self.server.files().pipe_file(f"{BUCKET}/{key}", b"1\n")
        return key

    def markers(self) -> dict[str, datetime]:
        found = self.server.files()
        found.invalidate_cache()
        told = found.find(self.place, detail=True).items()
        return {name.split("/")[-2]: one["LastModified"] for name, one in told if name.endswith("/_SUCCESS")}


@pytest.fixture
def clicks(s3_server: S3Server) -> Clicks:
    s3_server.start()
    table = Clicks(s3_server)
    for hour in range(HOURS):
        table.write(hour, "part-0")
    return table


def test_a_late_file_that_an_event_names_commits_its_partition_again(
    clicks: Clicks, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Also the file of a partition that is new. All folders are listed once a day here."""
    there = clicks.server.store().model_dump(mode="json", exclude_defaults=True)
    daemon = daemon_of(clicks, {"partition_commit": {}}, formats=["directory"], storage=[there])
    daemon.start()
    daemon.until(lambda: len(clicks.markers()) == HOURS)
    first = clicks.markers()
    for key in (clicks.write(0, "late"), clicks.write(HOURS, "new")):
        told = {"s3": {"bucket": {"name": BUCKET}, "object": {"key": quote(key)}}}
        assert daemon.post("/v1/hooks/directory", {"Records": [told]}).json()["result"] == "accepted"
    daemon.until(lambda: len(clicks.markers()) == HOURS + 1)
    daemon.until(lambda: clicks.markers()["hour=00"] > first["hour=00"])
    others = {f"hour={hour:02d}" for hour in range(1, HOURS)}
    assert {name: clicks.markers()[name] for name in others} == {name: first[name] for name in others}
    assert daemon.stop() == 0
