"""A real S3 server behind a proxy that spoils requests: the result of a table's reader for each kind of error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.deletion.guard import clean_overlaps
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.storage import Storages
from tests.support.hudi.hudi_table import HudiTable
from tests.support.object_stores.fault_proxy import FaultProxy, StoreFault
from tests.support.object_stores.s3_server import BUCKET, S3Server

BASE, LOG = "a-0_0-1-2_20260101000000000.parquet", ".a-0_20260101000000000.log.1_0-1-2"
IN_TIME_SECONDS = 1.0
SPOILS_ANY_REQUEST = [
    StoreFault.SLOW_DOWN,
    StoreFault.INTERNAL_ERROR,
    StoreFault.SILENCE,
    StoreFault.RESET,
    StoreFault.TRUNCATED_BODY,
    StoreFault.SLOW_BODY,
]


class Scene:
    """A table in the bucket, with a pending clean of files that a pending compaction needs."""

    def __init__(self, server: S3Server, proxy: FaultProxy, folder: Path, version: int) -> None:
        lake = HudiTable(folder, version=version, clock=ManualClock(), zone=UTC)
        for _ in range(4):
            lake.commit_write(lake.begin_write(), content=b'{"operationType": "UPSERT"}')
        self.compaction = lake.plan_compaction(files={"p0": (BASE, LOG)})
        self.clean = lake.plan_clean(files={"p0": (BASE, LOG)})
        server.start()
        self.proxy = proxy
        self.location = server.upload(folder, f"trouble-{uuid4().hex}")
        self.storage = self._reached_within(server, "30s")
        self.hasty = self._reached_within(server, f"{IN_TIME_SECONDS:g}s")
        self.timeline = f"{self.location}/.hoodie/timeline" if version >= 8 else f"{self.location}/.hoodie"

    def _reached_within(self, server: S3Server, timeout: str) -> Storage:
        return Storages([server.store(endpoint=self.proxy.endpoint, timeout=timeout)]).of(self.location)

    def observed(self, previous: Observation | None = None, *, storage: Storage | None = None) -> Observation:
        options = HudiTableOptions(writers="none", timeline_timezone="UTC")
        table = Table(id=TableId("trips"), format="hudi", location=self.location, options=options)
        return HUDI.observe(table, storage or self.storage, previous, now=datetime.now(UTC))

    def saved_by_the_guard(self, known: Observation | None = None) -> int:
        timeline = None if known is None else known.view.timeline
        return len(clean_overlaps(self.location, self.storage, instant=self.clean, known=timeline))


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    """Put a proxy before the S3 server."""
    with FaultProxy(upstream=s3_server.port).running() as proxy:
        yield proxy


@pytest.fixture(params=[6, 9])
def scene(request: pytest.FixtureRequest, s3_server: S3Server, proxy: FaultProxy, tmp_path: Path) -> Scene:
    return Scene(s3_server, proxy, tmp_path / "t", request.param)


@pytest.mark.parametrize("scene", [9], indirect=True)
@pytest.mark.parametrize("fault", SPOILS_ANY_REQUEST)
def test_a_store_in_trouble_is_temporary_trouble_in_time_and_then_all_is_well(scene: Scene, fault: StoreFault) -> None:
    """Each request ends at the store's own time limit, and half an answer is never taken for a whole one. After the
    error all is well again.
    """
    whole = scene.observed()
    with scene.proxy.spoils(fault):
        for ask in (
            lambda: scene.hasty.listing(scene.timeline),
            lambda: scene.hasty.read(f"{scene.timeline}/{scene.compaction}.compaction.requested"),
            lambda: scene.observed(storage=scene.hasty),
        ):
            with pytest.raises(TemporaryError):
                ask()
    assert scene.proxy.spoiled > 0
    assert scene.observed(whole).view.timeline == whole.view.timeline
    assert scene.saved_by_the_guard(whole) == 2


def test_listings_in_pages_are_read_to_their_end(scene: Scene) -> None:
    """If the proxy spoils nothing, its own paging is right. So the findings of the other tests come from what it
    spoils.
    """
    whole = scene.observed()
    scene.proxy.page = 3
    assert scene.observed(whole).view.timeline == whole.view.timeline
    assert any("continuation-token=after-3" in request for request in scene.proxy.seen)


def test_a_listing_whose_later_page_fails_is_no_listing(scene: Scene) -> None:
    """The entries of the first page are not taken for all."""
    scene.proxy.page = 3
    with scene.proxy.spoils(StoreFault.FAILING_PAGE), pytest.raises(TemporaryError):
        scene.storage.listing(scene.timeline)
    with scene.proxy.spoils(StoreFault.FAILING_PAGE), pytest.raises(TemporaryError):
        scene.saved_by_the_guard()
    assert scene.proxy.spoiled > 0


def test_a_listing_that_ends_too_early_is_found_out(scene: Scene) -> None:
    """It is found by what was seen before. Without that, the missing newest instant, the clean itself, shows it."""
    whole = scene.observed()
    scene.proxy.page = 9
    with scene.proxy.spoils(StoreFault.LOST_PAGES, requests="prefix=[^&]*hoodie"):
        assert "is not whole" in scene.observed(whole).view.faults[0]
        for known in (whole, None):
            with pytest.raises(TemporaryError):
                scene.saved_by_the_guard(known)
    assert scene.proxy.spoiled > 0
    assert scene.saved_by_the_guard(whole) == 2


@pytest.mark.parametrize("hidden", ["compaction", "commit", r"\.requested"])
def test_entries_that_a_listing_loses_without_a_word_are_missed(scene: Scene, hidden: str) -> None:
    """While they are hidden there is neither a whole view nor a deletion. Then all is well again."""
    whole = scene.observed()
    with scene.proxy.spoils(StoreFault.LOST_ENTRIES, keys=hidden):
        spoilt = scene.observed(whole)
        assert spoilt.view.faults
        with pytest.raises(TemporaryError):
            scene.saved_by_the_guard(whole)
    assert scene.proxy.spoiled > 0
    assert scene.observed(spoilt).view.faults == ()
    assert scene.saved_by_the_guard(whole) == 2


def test_a_look_between_two_fits_of_trouble_reads_what_it_still_lacks(scene: Scene) -> None:
    """A payload that could not be read is a fault or an error of that observation. It is never remembered as read."""
    plan = f"{scene.compaction}.compaction.requested"
    with scene.proxy.spoils(StoreFault.TRUNCATED_BODY, requests=f"GET .*{plan}"), pytest.raises(TemporaryError):
        scene.observed()
    (pending,) = [i for i in scene.observed().view.timeline.instants if i.time == scene.compaction]
    assert pending.plan is not None
    assert pending.plan.file_groups == 1


# -- Lakewarden's own writes


def test_a_claim_whose_answer_was_lost_is_read_back_and_is_ours(s3_server: S3Server, proxy: FaultProxy) -> None:
    """The store has executed the write, and the connection broke before its answer. Nothing is guessed."""
    s3_server.start()
    store = s3_server.store(endpoint=proxy.endpoint, timeout="5s")
    location = f"s3://{BUCKET}/claims-{uuid4().hex}/claim"
    conditions = Storages([store]).conditions(location)
    assert conditions is not None
    with proxy.spoils(StoreFault.LOST_RESPONSE, requests="^PUT .*claim", times=1):
        claimed = conditions.create(location, b"ours")
    assert proxy.spoiled > 0
    assert claimed is not None
    assert claimed.content == b"ours"
    assert conditions.create(location, b"theirs") is None


def test_a_claim_that_may_have_been_written_is_not_believed_in_either_way(
    s3_server: S3Server, proxy: FaultProxy
) -> None:
    """If the store cannot be asked for the result either, the error is temporary, and the store is asked again
    later.
    """
    s3_server.start()
    store = s3_server.store(endpoint=proxy.endpoint, timeout="10s")
    location = f"s3://{BUCKET}/claims-{uuid4().hex}/claim"
    conditions = Storages([store]).conditions(location)
    assert conditions is not None
    with proxy.spoils(StoreFault.LOST_RESPONSE, requests="claim"), pytest.raises(TemporaryError):
        conditions.create(location, b"ours")
    found = conditions.versioned(location)
    assert found is not None
    assert found.content == b"ours"
