"""Deletions of partitions: which of them a catalog was not told of, and what waits until it was."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.decide import Idle, ServiceState, decide
from lakewarden.planners.formats.hudi.deletion.expiry import MARK, noted, place_in, read_deletions
from lakewarden.planners.formats.hudi.metadata.payloads import whole_timeline
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.model.decision import Due, NotDue
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import TimeElapsed
from tests.support.hudi.hudi_look import look, made, seen
from tests.support.hudi.hudi_table import HudiTable, base_file

OPTIONS = CatalogSyncOptions(uri="thrift://hms:9083", database="sales", table="orders")


@pytest.fixture(params=[6, 9])
def trips(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    trips = made(tmp_path, version=request.param)
    (trips.home / MARK).parent.mkdir()
    trips.set_properties(kind="COPY_ON_WRITE")
    trips.write({"day=1": [base_file("a", "1")], "day=2": [base_file("b", "1")]})
    return trips


def _delete(trips: HudiTable, *partitions: str, run: str | None = None) -> str:
    replaced = {partition: ["a"] for partition in partitions}
    return trips.write({}, action="replacecommit", replaced=replaced, operation="DELETE_PARTITION", run=run)


def _tell(trips: HudiTable, *times: str, options: CatalogSyncOptions = OPTIONS) -> None:
    (trips.home / MARK).write_text(noted(options, times))


def _untold(trips: HudiTable) -> int:
    return seen(trips, Service.CATALOG_SYNC, options=OPTIONS).backlogs[Service.CATALOG_SYNC].commits


def test_each_deletion_counts_until_the_catalog_was_told_of_it(trips: HudiTable) -> None:
    """Our deletions and a writer's count. An overwriting of the same partition does not."""
    trips.write({"day=1": [base_file("c", "2")]}, action="replacecommit", replaced={"day=1": ["a"]})
    assert _untold(trips) == 0
    ours, theirs = _delete(trips, "day=1", run="r1"), _delete(trips, "day=2")
    assert _untold(trips) == 2
    _tell(trips, ours)
    assert _untold(trips) == 1
    _tell(trips, ours, theirs)
    assert _untold(trips) == 0


def test_every_deletion_is_read_with_its_partitions(trips: HudiTable) -> None:
    """The run that tells the catalog reads them, from both layouts. It reads no commit that only replaces files."""
    trips.write({"day=1": [base_file("c", "2")]}, action="replacecommit", replaced={"day=1": ["a"]})
    ours, theirs = _delete(trips, "day=1", "day=3", run="r1"), _delete(trips, "day=2")
    trips.begin_write("replacecommit")
    location, storage = str(trips.folder), LocalStorage()
    properties = read_table_properties(location, storage)

    found = read_deletions(whole_timeline(properties, storage), properties, storage)

    assert found == {ours: {"day=1", "day=3"}, theirs: {"day=2"}}
    torn = next(trips.timeline.glob(f"{theirs}*.replacecommit"))
    torn.write_bytes(b"{")
    with pytest.raises(TemporaryError, match=f"{theirs}.* cannot be read"):
        read_deletions(whole_timeline(properties, storage), properties, storage)


def test_what_another_place_was_told_counts_for_nothing(trips: HudiTable) -> None:
    """This holds for a table that was registered anew in another metastore or under another name. A damaged mark counts
    for nothing, too.
    """
    gone = _delete(trips, "day=1")
    _tell(trips, gone, options=OPTIONS.model_copy(update={"table": "trips"}))
    assert _untold(trips) == 1
    for damaged in ("", "\n", f"{place_in(OPTIONS)}\n{gone[:5]}"):
        (trips.home / MARK).write_text(damaged)
        assert _untold(trips) == 1


def test_a_deletion_is_not_archived_before_the_catalog_was_told_of_it(trips: HudiTable) -> None:
    """The catalog would never be told of a deletion that has left the timeline. Without the policy nothing waits."""
    gone = _delete(trips, "day=1")
    [held] = [one for one in seen(trips, Service.CATALOG_SYNC, options=OPTIONS).blockers if one.services]
    assert held.services == {Service.ARCHIVE}
    assert gone in held.reason
    assert not [one for one in seen(trips, Service.ARCHIVE).blockers if one.services]
    _tell(trips, gone)
    assert not [one for one in seen(trips, Service.CATALOG_SYNC, options=OPTIONS).blockers if one.services]


def test_a_view_with_an_untold_deletion_is_not_kept(trips: HudiTable) -> None:
    """No token shows that the catalog was told."""
    gone = _delete(trips, "day=1")
    trips.clock.advance(timedelta(minutes=1))
    other = look(trips, Service.CLEAN)
    assert other.vouched_for(token=other.token, now=trips.clock.now())
    first = look(trips, Service.CATALOG_SYNC, options=OPTIONS)
    assert not first.vouched_for(token=first.token, now=trips.clock.now())
    _tell(trips, gone)
    second = look(trips, Service.CATALOG_SYNC, options=OPTIONS, previous=first)
    assert second.vouched_for(token=second.token, now=trips.clock.now())


def test_a_deletion_after_an_archived_one_is_told_as_well(trips: HudiTable) -> None:
    """The count of the last run is not subtracted: as many may be new as were archived since."""
    _tell(trips, _delete(trips, "day=1"))
    new = _delete(trips, "day=2")
    view = seen(trips, Service.CATALOG_SYNC, options=OPTIONS)
    policy = Policy(trigger=TimeElapsed(at_least=timedelta(minutes=5)), options=OPTIONS)
    service_state = ServiceState(mode=Mode.ACT, idle=Idle(after="0 until ever", commits=1, at=view.observed_at))

    early, late = (
        decide(
            service=Service.CATALOG_SYNC,
            view=view,
            policy=policy,
            service_state=service_state,
            now=view.observed_at + after,
        )
        for after in (timedelta(minutes=4), timedelta(minutes=6))
    )

    assert isinstance(early, NotDue)
    assert isinstance(late, Due)
    assert new in view.notes[Service.CATALOG_SYNC][0]
