"""The archived timeline of a Hudi table. The archive of `mor_v9` was written by Hudi's own archive service."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import ArchivePage, Instant, InstantKind, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import NoArchiveError
from lakewarden.planners.storage import storage_for

WRITTEN_BY_HUDI = Path(__file__).parents[4] / "fixtures" / "hudi" / "archives" / "mor_v9"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a copy of the table whose archive Hudi wrote."""
    return Path(shutil.copytree(WRITTEN_BY_HUDI, tmp_path / "orders"))


def history(lake: Path) -> Path:
    return lake / ".hoodie" / "timeline" / "history"


def page(lake: Path, *, before: datetime | None = None, limit: int = 100) -> ArchivePage:
    table = Table(id=TableId("orders"), format="hudi", location=str(lake), options=HUDI.table_options())
    return HUDI.archived(table, storage_for(str(lake)), before=before, limit=limit)


def whole(lake: Path, *, limit: int) -> Sequence[Instant]:
    found: list[Instant] = []
    before: datetime | None = None
    while True:
        one = page(lake, before=before, limit=limit)
        found += one.instants
        if one.before is None:
            return found
        assert before is None or one.before < before
        before = one.before


def write(lake: Path, files: Sequence[Sequence[str]]) -> None:
    """Replace the archive by files with writes that were requested at these times."""
    listed = []
    for times in files:
        file = history(lake) / f"{min(times)}_{max(times)}_0.parquet"
        names = ("instantTime", "completionTime")
        columns = {name: pa.array(times) for name in names} | {"action": pa.array(["commit"] * len(times))}
        parquet.write_table(pa.table(columns), file)
        listed.append({"fileName": file.name, "fileLen": file.stat().st_size})
    (history(lake) / "manifest_2").write_text(json.dumps({"files": listed}))


def test_the_archive_of_hudi_is_read_the_newest_first(lake: Path) -> None:
    """Each instant has its action, what it stands for, and both of its times. A commit of such a table compacts."""
    found = page(lake)

    assert found.before is None
    assert [one.time for one in found.instants] == sorted((one.time for one in found.instants), reverse=True)
    assert len(found.instants) == 9
    assert [(one.time, one.completed_time) for one in found.instants if one.stands_for is Service.COMPACTION] == [
        ("20261123194032513", "20261123194038538")
    ]
    assert {one.action for one in found.instants if one.stands_for is InstantKind.WRITE} == {
        "deltacommit",
        "replacecommit",
    }


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
def test_the_pages_together_have_each_instant_once(lake: Path, limit: int) -> None:
    """No page leaves out an instant, whatever its size."""
    assert whole(lake, limit=limit) == list(page(lake).instants)


def test_files_that_overlap_are_merged(lake: Path) -> None:
    """An older file may have an instant that lies between those of a newer one."""
    times = [f"202611010000{second:02}000" for second in range(12)]
    write(lake, [times[0:1] + times[3:4], times[1:3] + times[8:9], times[4:8] + times[9:12]])

    assert [one.time for one in whole(lake, limit=2)] == times[::-1]


def test_an_instant_that_was_archived_twice_is_listed_once(lake: Path) -> None:
    """An archive that is killed after it has written its file writes the same instants again."""
    times = [f"202611010000{second:02}000" for second in range(4)]
    write(lake, [times[:3], times[1:]])

    assert [one.time for one in whole(lake, limit=3)] == times[::-1]


def test_a_page_reads_only_the_files_that_it_needs(lake: Path) -> None:
    """The oldest files are not opened for the newest page, even if they are damaged."""
    times = [f"2026110100{minute:02}00000" for minute in range(10)]
    write(lake, [[time] for time in times])
    (history(lake) / f"{times[0]}_{times[0]}_0.parquet").write_bytes(b"damaged")

    assert [one.time for one in page(lake, limit=3).instants] == times[:-4:-1]
    with pytest.raises(PermanentError, match="is damaged"):
        page(lake, limit=100)


def test_a_page_reads_a_bounded_number_of_files(lake: Path) -> None:
    """An archive of many small files is read in steps, and in whole."""
    times = [f"2026110100{minute:02}00000" for minute in range(50)]
    write(lake, [[time] for time in times])

    first = page(lake, limit=1000)

    assert len(first.instants) == 32
    assert first.before is not None
    assert [one.time for one in whole(lake, limit=1000)] == times[::-1]


def test_a_table_that_was_never_archived_has_an_empty_archive(lake: Path) -> None:
    """There is no folder of the archive yet."""
    shutil.rmtree(history(lake))

    assert page(lake) == ArchivePage(instants=())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("_version_", b"two"),
        ("manifest_2", b"{"),
        ("manifest_2", b'{"files": [{"fileName": "../../../../secret.parquet", "fileLen": 8}]}'),
        ("manifest_2", b'{"files": [{"fileName": "20261101000000000_20261101000000000_0.parquet", "fileLen": -1}]}'),
        ("manifest_2", b'{"files": 3}'),
        ("20261123194026069_20261123194043670_0.parquet", b"PAR1" + b"\xff" * 4954 + b"PAR1"),
    ],
)
def test_a_damaged_archive_is_named(lake: Path, name: str, content: bytes) -> None:
    """No name in a manifest leads out of the archive, and no damage passes for an empty archive."""
    (history(lake) / name).write_bytes(content)

    with pytest.raises(PermanentError, match=r"archive|damaged"):
        page(lake)


def test_a_file_that_a_merge_has_just_removed_is_asked_for_again(lake: Path) -> None:
    """The next request reads the new manifest."""
    (history(lake) / "20261123194026069_20261123194043670_0.parquet").unlink()

    with pytest.raises(TemporaryError, match="ask again"):
        page(lake)


def _as_version_6(lake: Path) -> Path:
    """Give the table the older layout, and return the folder of its archive, which does not exist."""
    properties = lake / ".hoodie" / "hoodie.properties"
    said = properties.read_text().replace("hoodie.timeline.layout.version=2", "hoodie.timeline.layout.version=1")
    properties.write_text(said.replace("hoodie.archivelog.folder=history", "hoodie.archivelog.folder=archived"))
    return lake / ".hoodie" / "archived"


def test_the_archive_of_an_older_table_version_is_refused_by_name(lake: Path) -> None:
    """It has another form."""
    archive = _as_version_6(lake)
    archive.mkdir()
    (archive / ".commits_.archive.1_1-0-1").write_bytes(b"")

    with pytest.raises(NoArchiveError, match="8 and 9"):
        page(lake)


@pytest.mark.parametrize("made", [True, False])
def test_an_older_table_that_has_archived_nothing_has_an_empty_page(lake: Path, *, made: bool) -> None:
    """Nothing is hidden from a client that asks, so nothing is refused."""
    archive = _as_version_6(lake)
    if made:
        archive.mkdir()
        (archive / "a folder of Hudi").mkdir()

    assert page(lake) == ArchivePage(instants=(), before=None)


def test_an_older_archive_that_a_link_leads_out_of_the_table_is_not_taken_for_empty(lake: Path, tmp_path: Path) -> None:
    """What lies there is another table's."""
    (tmp_path / "elsewhere").mkdir()
    _as_version_6(lake).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(NoArchiveError, match="8 and 9"):
        page(lake)


def test_an_archive_outside_its_timeline_is_refused(lake: Path, tmp_path: Path) -> None:
    """Another table may own that place."""
    history(lake).rename(tmp_path / "elsewhere")
    history(lake).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PermanentError, match="outside its timeline"):
        page(lake)
