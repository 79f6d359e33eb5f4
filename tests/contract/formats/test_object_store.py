"""A table in an object store is observed as the same table on a local disk."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import LocalStorage, Storages
from tests.support.object_stores.fault_proxy import FaultProxy
from tests.support.object_stores.s3_server import BUCKET, S3Server

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hudi"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.zip"))
NOW = datetime.now(UTC)


def _table(location: str) -> Table:
    options = HudiTableOptions(writers="none", timeline_timezone="UTC")
    return Table(id=TableId("trips"), format="hudi", location=location, options=options)


class Uploaded:
    """A fixture that was unpacked and uploaded to the S3 server."""

    def __init__(self, server: S3Server, name: str, folder: Path) -> None:
        with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
            archive.extractall(folder)
        server.start()
        self.local = str(folder)
        self.location = server.upload(folder, f"{name}-{uuid4().hex}")
        self.files = server.files()
        self.storage = Storages([server.store()]).of(self.location)

    def observed(self, previous: Observation | None = None, *, now: datetime = NOW) -> Observation:
        return HUDI.observe(_table(self.location), self.storage, previous, now=now)

    def token(self) -> str:
        return HUDI.token(_table(self.location), self.storage)

    def timeline(self, name: str) -> str:
        """Return the location of a timeline file, in either layout."""
        folder = f"{self.location}/.hoodie"
        in_layout_2 = any(self.files.glob(f"{folder}/timeline/2*"))
        return f"{folder}/timeline/{name}" if in_layout_2 else f"{folder}/{name}"


@pytest.fixture
def uploaded(s3_server: S3Server, tmp_path: Path) -> Callable[[str], Uploaded]:
    """Return a function that uploads a fixture."""
    return lambda name: Uploaded(s3_server, name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_in_a_store_is_seen_as_on_a_disk(uploaded: Callable[[str], Uploaded], name: str) -> None:
    """The test compares the instants, the plans with their sizes and authors, and every backlog. The times of files are
    the store's own.
    """
    table = uploaded(name)
    on_disk = HUDI.observe(_table(table.local), LocalStorage(), None, now=NOW).view
    in_store = table.observed().view

    assert in_store.faults == on_disk.faults == ()
    for ours, theirs in zip(in_store.timeline.instants, on_disk.timeline.instants, strict=True):
        assert (ours.time, ours.action, ours.state, ours.stands_for) == (
            theirs.time, theirs.action, theirs.state, theirs.stands_for,
        )  # fmt: skip
        assert (ours.completed_time, ours.plan, ours.author) == (theirs.completed_time, theirs.plan, theirs.author)
    assert in_store.backlogs.keys() == on_disk.backlogs.keys()
    assert {s: b.commits for s, b in in_store.backlogs.items()} == {s: b.commits for s, b in on_disk.backlogs.items()}


@pytest.mark.parametrize("name", ["mor_v6", "mor_v9"])
def test_a_token_changes_with_the_timeline_and_only_with_it(uploaded: Callable[[str], Uploaded], name: str) -> None:
    """This holds in both layouts. A data file beside the timeline changes nothing."""
    table = uploaded(name)
    before = table.token()
    table.files.pipe_file(f"{table.location}/p0/data.parquet", b"1")
    assert table.token() == before
    table.files.pipe_file(table.timeline("20990101000000000.deltacommit.requested"), b"")
    assert table.token() != before


@pytest.mark.parametrize("name", ["mor_v6", "mor_v9"])
def test_a_poll_of_an_idle_table_is_one_head_and_one_listing(
    uploaded: Callable[[str], Uploaded], s3_server: S3Server, name: str
) -> None:
    """Stores charge for listings, and most of a poll's time is spent on them."""
    table = uploaded(name)
    with FaultProxy(upstream=s3_server.port).running() as proxy:
        storage = Storages([s3_server.store(endpoint=proxy.endpoint)]).of(table.location)
        first = HUDI.token(_table(table.location), storage)
        proxy.seen.clear()
        assert HUDI.token(_table(table.location), storage) == first
    assert [request.split("?")[0].split()[0] for request in proxy.seen] == ["HEAD", "GET"]
    assert proxy.seen[0].endswith("/.hoodie/hoodie.properties")
    assert ("timeline" in proxy.seen[1]) == (name == "mor_v9")


@pytest.mark.long
def test_a_write_that_begins_is_seen_by_the_next_look(uploaded: Callable[[str], Uploaded]) -> None:
    """The listing shows the change, whatever the clocks say."""
    table = uploaded("cow_v9")
    first = table.observed()
    assert first.token == table.token()
    write = "20990101000000000"
    table.files.pipe_file(table.timeline(f"{write}.commit.requested"), b"")
    table.files.pipe_file(table.timeline(f"{write}.inflight"), b"")

    assert not first.vouched_for(token=table.token(), now=NOW)
    assert [i.time for i in table.observed(first).view.writers.in_flight][-1:] == [write]


def test_folders_without_times_are_no_identity(uploaded: Callable[[str], Uploaded]) -> None:
    """Hadoop marks empty folders by empty objects, which come and go. The table keeps its identity."""
    table = uploaded("cow_v9")
    before = table.observed().view.identity
    table.files.pipe_file(f"{table.location}/.hoodie/.aux/.bootstrap/.fileids/", b"")

    assert table.observed().view.identity == before


def test_a_place_in_a_store_without_a_table_is_a_permanent_error(s3_server: S3Server) -> None:
    """Neither an empty place nor a bucket that does not exist is taken for a table."""
    s3_server.start()
    for location in (f"s3://{BUCKET}/nothing-here", "s3://no-such-bucket/table"):
        storage = Storages([s3_server.store(prefix="s3://")]).of(location)
        with pytest.raises(PermanentError, match="holds no Hudi table"):
            HUDI.token(_table(location), storage)
