"""A directory is observed by its listings, and a folder is listed again only where something may have changed."""

from __future__ import annotations

import gc
import shutil
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.directory.expiring import orphans_needs, with_orphans
from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.options import DirectoryTableOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry, Observation
from lakewarden.planners.storage import LocalStorage
from tests.support.directory.directories import age, directory_table, put

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Counted(LocalStorage):
    """Local disks, with the folders that were listed."""

    def __init__(self) -> None:
        self.listed: list[str] = []

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        self.listed.append(location)
        return super().listing(location, most=most)


def made(folder: Path, hours: int = 4, at: datetime = NOW - 5 * HOUR) -> Path:
    for hour in range(hours):
        put(folder / f"dt=2026-03-01/hr={hour:02d}/part-1", at)
    for path in (folder / "dt=2026-03-01", folder):
        age(path, at)
    return folder


def observed(
    folder: Path,
    previous: Observation | None = None,
    *,
    now: datetime = NOW,
    storage: LocalStorage | None = None,
    options: DirectoryTableOptions | None = None,
) -> Observation:
    table = directory_table(folder, options=options)
    return DirectoryFormat().observe(table, storage or LocalStorage(), previous, now=now)


def _summary(view: TableView) -> str:
    """Return how many partitions are in each state."""
    return view.notes[Service.PARTITION_COMMIT][0]


def test_a_directory_is_described_by_its_partitions(tmp_path: Path) -> None:
    """How many there are, and how far; the newest of what happened stands in the timeline."""
    folder = made(tmp_path / "trips")
    put(folder / "dt=2026-03-01/hr=00/_SUCCESS", NOW - 3 * HOUR, b"")
    put(folder / "dt=2026-03-01/hr=03/.part-2.inprogress.77", NOW - HOUR)
    view = observed(folder).view
    assert view.kind == "4 partitions, 4 files, 16B"
    assert _summary(view) == "4 partitions (1 active, 2 to be committed, 1 committed), 4 files, 16B"
    assert (view.name, view.identity.location) == ("trips", str(folder))
    told = [(one.time.partition(" ")[2], one.action, one.state) for one in view.timeline.instants[-2:]]
    assert told == [
        ("dt=2026-03-01/hr=03", "part_in_progress", State.INFLIGHT),
        ("dt=2026-03-01/hr=03", "write", State.COMPLETED),
    ]
    assert view.backlogs[Service.PARTITION_COMMIT].commits == 2


class AllBelow(LocalStorage):
    """A store that lists all below a folder, and keeps no times of folders."""

    def changed_at(self, location: str) -> datetime | None:
        return None

    def each_below(self, location: str, take: Callable[[str, FileEntry], None]) -> None:
        files = sorted(one for one in Path(location).rglob("*") if one.is_file())
        if not files:
            raise FileNotFoundError(location)
        for file in files:
            modified = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            entry = FileEntry(name=file.name, size=file.stat().st_size, modified=modified)
            try:
                take(str(file.relative_to(location)), entry)
            except StopIteration:
                return


STORES = pytest.mark.parametrize("storage", [LocalStorage(), AllBelow()], ids=["disk", "keys"])
TABLES = pytest.mark.parametrize(
    "other",
    [".hoodie/hoodie.properties", "metadata/v1.metadata.json", "schema/schema-0", f"_delta_log/{0:020}.json"],
)


@TABLES
def test_a_table_of_another_format_is_never_a_directory(tmp_path: Path, other: str) -> None:
    """A marker in it would be a stray file, and its partitions are the format's own."""
    folder = made(tmp_path / "trips")
    put(folder / other, NOW)
    with pytest.raises(PermanentError, match=f"is not a plain directory: .*{other}"):
        observed(folder)


def test_a_folder_of_parts_that_a_store_still_lists_without_a_file_holds_nothing_back(tmp_path: Path) -> None:
    """SeaweedFS lists the `_temporary` of a job of Spark that has ended. On a disk a job may have begun in it."""
    folder = made(tmp_path / "trips", hours=1)
    (folder / "_temporary" / "0").mkdir(parents=True)
    for storage, kind in ((AllBelow(), "1 to be committed"), (LocalStorage(), "2 active")):
        seen = observed(folder, storage=storage, now=NOW - HOUR)
        assert kind in _summary(observed(folder, seen, storage=storage).view)
    put(folder / "_temporary/1/_temporary/part-1", NOW - 5 * HOUR)
    assert "2 active" in _summary(observed(folder, seen, storage=AllBelow()).view)


def test_a_folder_of_parts_without_a_byte_is_given_up_after_the_horizon_on_an_object_store(tmp_path: Path) -> None:
    """S3A writes an empty object for `_temporary/0/`. It stays if the job is killed, and orphans cannot delete it."""
    folder = made(tmp_path / "trips", hours=1)
    put(folder / "_temporary" / "0", NOW - 2 * HOUR, b"")
    for horizon, kind in ((timedelta(hours=3), "2 active"), (HOUR, "1 to be committed"), (None, "2 active")):
        options = DirectoryTableOptions(restore_horizon=horizon)
        seen = observed(folder, storage=AllBelow(), options=options)
        assert kind in _summary(seen.view)
        later = observed(folder, seen, storage=AllBelow(), options=options, now=NOW + HOUR / 2)
        assert kind in _summary(later.view)
    hollow = Folder(staging=1, oldest_staged=1.0, hollow_since=1.0)
    assert orphans_needs({"": hollow}, HOUR, NOW).changes_at is None
    assert with_orphans({"": hollow}, HOUR, NOW) == {}
    assert with_orphans({"": replace(hollow, hollow_since=0.0)}, HOUR, NOW)


@STORES
@TABLES
def test_a_table_below_is_left_alone_with_all_below_it(tmp_path: Path, other: str, storage: LocalStorage) -> None:
    """Its data files look like those of any partition. It is named, and the others are served."""
    folder = made(tmp_path / "trips", hours=1)
    put(folder / "dt=2026-02-28/orders/data/part-1", NOW - 5 * HOUR)
    put(folder / "dt=2026-02-28/orders" / other, NOW - 5 * HOUR)
    seen = observed(folder, storage=storage)
    assert seen.view.kind == "1 partition, 1 file, 4B"
    [warning] = seen.view.warnings
    assert warning.startswith("dt=2026-02-28/orders is left alone, with all below it, because it is a")
    assert str(folder / "dt=2026-02-28/orders" / other) in warning
    again = observed(folder, seen, storage=storage, now=NOW + timedelta(minutes=1))
    assert (again.view.kind, again.view.warnings) == (seen.view.kind, seen.view.warnings)


@STORES
def test_a_partition_that_becomes_a_table_is_left_alone_from_the_next_look_on(
    tmp_path: Path, storage: LocalStorage
) -> None:
    folder = made(tmp_path / "trips", hours=2)
    seen = observed(folder, storage=storage)
    put(folder / "dt=2026-03-01/hr=01/metadata/v1.metadata.json", NOW)
    age(folder / "dt=2026-03-01/hr=01", NOW)
    seen = observed(folder, seen, storage=storage, now=NOW + timedelta(minutes=1))
    assert seen.view.kind.startswith("1 partition,")
    shutil.rmtree(folder / "dt=2026-03-01/hr=01/metadata")
    seen = observed(folder, seen, storage=storage, now=NOW + timedelta(minutes=20))
    assert (seen.view.kind.partition(",")[0], seen.view.warnings) == ("2 partitions", ())


@STORES
@pytest.mark.parametrize(
    ("what", "inside"),
    [
        ("a checkpoint of a stream of Spark", ("metadata", "offsets/0", "commits/0")),
        ("a checkpoint of a stream of Flink", ("chk-7/_metadata", "shared/4f", "taskowned/1")),
        ("a partition of a transactional Hive table", ("delta_0000001_0000001_0000/bucket_00000",)),
    ],
)
def test_a_checkpoint_or_a_hive_table_in_a_directory_is_left_alone(
    tmp_path: Path, what: str, inside: tuple[str, ...], storage: LocalStorage
) -> None:
    """Its files look like data. A stream that finds them joined, or gone, writes everything again, and Hive knows its
    rows by the names of their files.
    """
    folder = made(tmp_path / "trips", hours=1)
    for name in inside:
        put(folder / "checkpoint" / name, NOW - 5 * HOUR)
    seen = observed(folder, storage=storage).view
    assert seen.kind.startswith("1 partition,")
    assert f"checkpoint is left alone, with all below it, because it is {what}" in (seen.warnings[0])


@STORES
def test_a_hidden_folder_of_unknown_meaning_is_named_with_the_option_that_ignores_it(
    tmp_path: Path, storage: LocalStorage
) -> None:
    """As the checkpoint of a stream: no partition below would ever be committed, without a reason in sight."""
    folder = made(tmp_path / "trips", hours=1)
    put(folder / "_checkpoint/offsets/0", NOW - 5 * HOUR)
    seen = observed(folder, storage=storage).view
    [warning] = seen.warnings
    assert "holds '_checkpoint', which may hold parts in progress" in warning
    assert "options.ignored" in warning
    assert all("('_checkpoint')" in note for note in seen.notes[Service.PARTITION_COMMIT][1:])


@STORES
@TABLES
def test_a_folder_within_a_table_is_no_directory(tmp_path: Path, other: str, storage: LocalStorage) -> None:
    """Not even by a link that leads there."""
    folder = made(tmp_path / "orders/data/trips")
    put(tmp_path / "orders" / other, NOW)
    (tmp_path / "link").symlink_to(folder)
    for name in (folder, tmp_path / "link"):
        with pytest.raises(PermanentError, match=f"lies in an? .* table .*{other}"):
            observed(name, storage=storage)


def test_a_place_without_data_is_no_directory(tmp_path: Path) -> None:
    """Neither a missing folder, nor an empty one, nor one with hidden files alone, nor a file."""
    (tmp_path / "empty").mkdir()
    put(tmp_path / "hidden/_x", NOW)
    put(tmp_path / "file", NOW)
    for name in ("empty", "hidden", "file", "missing"):
        with pytest.raises(PermanentError, match=name):
            observed(tmp_path / name)


def test_one_changed_partition_is_the_only_one_that_is_listed(tmp_path: Path) -> None:
    """Neither its neighbours, nor the folders above it."""
    folder = made(tmp_path / "trips", hours=50)
    storage = Counted()
    first = observed(folder, storage=storage)
    assert len(storage.listed) == 53  # the folder itself is also looked at to recognise it
    put(folder / "dt=2026-03-01/hr=07/part-2", NOW - HOUR)
    storage.listed.clear()
    second = observed(folder, first, now=NOW + timedelta(seconds=10), storage=storage)
    assert storage.listed == [f"{folder}/dt=2026-03-01/hr=07"]
    assert second.view.kind == "50 partitions, 51 files, 204B"
    storage.listed.clear()
    observed(folder, second, now=NOW + HOUR, storage=storage)  # a look at all folders: a new time shows what changed
    assert set(storage.listed) == {str(folder), f"{folder}/dt=2026-03-01"}


def test_a_folder_that_a_hook_names_is_listed_although_it_is_old(tmp_path: Path) -> None:
    folder, table = made(tmp_path / "trips", hours=300), directory_table(tmp_path / "trips")
    directories, storage, soon = DirectoryFormat(), Counted(), NOW + timedelta(seconds=10)
    first = directories.observe(table, storage, None, now=NOW)
    [old] = [path for path in first.memo.folders if path not in first.memo.warm][:1]
    put(folder / old / "late", NOW - HOUR)
    assert directories.observe(table, storage, first, now=soon).memo.folders == first.memo.folders
    storage.listed.clear()
    directories.heard(table.location, old)
    second = directories.observe(table, storage, first, now=soon)
    assert storage.listed == [f"{folder}/{old}"]
    assert second.memo.folders[old].files == first.memo.folders[old].files + 1
    assert old in second.memo.warm
    assert directories.observe(table, storage, first, now=soon).memo.folders == first.memo.folders


@pytest.mark.parametrize("named", ["dt=2026-03-02/hr=00", "dt=2026-03-02/hr=00/.staging_17/task", ""])
def test_a_new_folder_that_a_hook_names_is_found_from_the_nearest_one_that_is_known(tmp_path: Path, named: str) -> None:
    """Also the hidden folder of a writer in it."""
    folder, table, directories = made(tmp_path / "trips"), directory_table(tmp_path / "trips"), DirectoryFormat()
    first = directories.observe(table, LocalStorage(), None, now=NOW)
    put(folder / "dt=2026-03-02/hr=00/part-1", NOW - HOUR)
    directories.heard(table.location, named)
    second = directories.observe(table, LocalStorage(), first, now=NOW + timedelta(seconds=10))
    assert second.memo.folders["dt=2026-03-02/hr=00"].files == 1


def test_a_folder_that_a_hook_names_is_looked_at_again_if_a_look_failed(tmp_path: Path) -> None:

    class Away(LocalStorage):
        def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
            raise TemporaryError(f"{location} does not answer")

    folder, table, directories = made(tmp_path / "trips", 300), directory_table(tmp_path / "trips"), DirectoryFormat()
    first = directories.observe(table, LocalStorage(), None, now=NOW)
    [old] = [path for path in first.memo.folders if path not in first.memo.warm][:1]
    put(folder / old / "late", NOW - HOUR)
    directories.heard(table.location, old)
    with pytest.raises(TemporaryError):
        directories.observe(table, Away(), first, now=NOW + timedelta(seconds=10))
    second = directories.observe(table, LocalStorage(), first, now=NOW + timedelta(seconds=10))
    assert second.memo.folders[old].files == 2


def test_a_partition_that_came_or_went_is_seen(tmp_path: Path) -> None:
    """By the time of the folder above it."""
    folder = made(tmp_path / "trips")
    first = observed(folder)
    put(folder / "dt=2026-03-02/hr=00/part-1", NOW - HOUR)
    shutil.rmtree(folder / "dt=2026-03-01/hr=02")
    second = observed(folder, first, now=NOW + timedelta(seconds=10))
    paths = {path for path, one in second.memo.folders.items() if one.files}
    assert paths == {f"dt=2026-03-01/hr={hour:02d}" for hour in (0, 1, 3)} | {"dt=2026-03-02/hr=00"}
    shutil.rmtree(folder / "dt=2026-03-01")
    third = observed(folder, second, now=NOW + timedelta(seconds=20))
    assert {path for path, one in third.memo.folders.items() if one.files} == {"dt=2026-03-02/hr=00"}


def test_an_equal_token_vouches_until_time_alone_changes_something(tmp_path: Path) -> None:
    """Until a partition becomes inactive, and never beyond the next look at all folders."""
    folder = made(tmp_path / "trips", at=NOW - timedelta(seconds=30))
    table, form, storage = directory_table(folder), DirectoryFormat(), LocalStorage()
    kept = form.observe(table, storage, None, now=NOW)
    assert kept.token == form.token(table, storage)
    assert kept.keep_until == NOW + timedelta(seconds=30)
    later = form.observe(table, storage, kept, now=NOW + timedelta(seconds=31))
    assert later.view.backlogs[Service.PARTITION_COMMIT].commits == 4
    assert later.keep_until == NOW + timedelta(minutes=10)
    young = observed(made(tmp_path / "young", at=NOW - timedelta(seconds=1)))
    assert not young.vouched_for(token=young.token, now=NOW)  # another change may leave the token as it is


def test_a_file_that_grows_in_place_is_seen_while_its_partition_is_young(tmp_path: Path) -> None:
    """No folder shows it, so a young partition is listed each time."""
    folder = made(tmp_path / "trips", at=NOW - timedelta(seconds=30))
    first = observed(folder)
    file = folder / "dt=2026-03-01/hr=00/part-1"
    file.write_bytes(b"row\n" * 9)
    age(file, NOW)
    second = observed(folder, first, now=NOW + timedelta(seconds=10))
    assert second.memo.folders["dt=2026-03-01/hr=00"].bytes == 36


_STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "hide", "finish", "drop", "mark", "wait"]), st.integers(0, 3)), max_size=12
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_STEPS)
def test_reading_only_what_changed_brings_what_reading_everything_brings(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """Whatever happens between two looks, and the token tells of each change."""
    folder, now = made(tmp_path_factory.mktemp("lake") / "trips"), NOW
    table, form, storage = directory_table(folder), DirectoryFormat(), LocalStorage()
    kept = form.observe(table, storage, None, now=now)
    for number, (step, hour) in enumerate(steps):
        now += timedelta(seconds=30)
        before = _times(folder)
        _take(step, folder / f"dt=2026-03-01/hr={hour:02d}", number, now)
        changed = before != _times(folder)
        assert (form.token(table, storage) != kept.token) == changed
        kept = form.observe(table, storage, kept, now=now + timedelta(seconds=5))
        assert kept.memo.folders == DirectoryFormat().observe(table, storage, None, now=now).memo.folders


def _times(folder: Path) -> set[tuple[Path, int]]:
    """Return the folders with their times: what shows that an entry came, went or got another name."""
    return {(path, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_dir()}


def _take(step: str, partition: Path, number: int, now: datetime) -> None:
    hidden = sorted(partition.glob(".part*"))
    match step:
        case "put" | "hide":
            new = not partition.exists()
            put(partition / f"{'.' if step == 'hide' else ''}part-{number}", now)
            if new:
                age(partition.parent, now)
        case "finish" if hidden:
            hidden[0].rename(partition / hidden[0].name[1:])
            age(partition, now)
        case "drop" if partition.exists() and len(list(partition.parent.iterdir())) > 1:
            shutil.rmtree(partition)
            age(partition.parent, now)
        case "mark" if partition.exists():
            put(partition / "_SUCCESS", now, b"")


class Many(LocalStorage):
    """A directory of very many folders that nobody has to make."""

    def __init__(self, partitions: int, files: int) -> None:
        self._partitions, self._files = partitions, files

    def changed_at(self, location: str) -> datetime | None:
        return NOW - HOUR

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        return list(self._entries(location))

    def _entries(self, location: str) -> Iterator[FileEntry]:
        if location.endswith("/trips"):
            for number in range(self._partitions):
                yield FileEntry(name=f"key={number:06d}", size=0, modified=NOW - HOUR, is_folder=True)
            return
        for number in range(self._files):
            yield FileEntry(name=f"part-{number}", size=10, modified=NOW - HOUR - number * timedelta(minutes=1))


_OF_THE_OBSERVER = [
    tracemalloc.Filter(inclusive=True, filename_pattern=pattern) for pattern in ("*/lakewarden/planners/*", __file__)
]
"""What it allocates, and what the storage gives to it. Threads of other tests are left out."""


@pytest.mark.long
def test_no_path_of_a_file_is_kept() -> None:
    """What is kept of a partition is a few numbers: as much for 300 files as for a thousand."""
    observed(Path("/lake/trips"), storage=Many(1, 1))  # what is kept once is not of a partition
    kept = []
    for files in (300, 1000):  # Python keeps numbers below 257 once for all
        tracemalloc.start()
        observation = observed(Path("/lake/trips"), storage=Many(20, files))
        gc.collect()
        ours = tracemalloc.take_snapshot().filter_traces(_OF_THE_OBSERVER)
        tracemalloc.stop()
        kept.append(sum(trace.size for trace in ours.traces) / 20)
        assert len(observation.memo.folders) == 21
    assert kept[1] < kept[0] + 2000  # 700 paths would be more than 5,600 bytes, in whatever form
    assert kept[1] < 3000


def test_a_link_that_leads_back_is_not_followed_for_ever(tmp_path: Path) -> None:
    """A file has one partition: the link is left out."""
    folder = made(tmp_path / "trips")
    before: dict[str, Folder] = observed(folder).memo.folders
    (folder / "again").symlink_to(folder)
    assert set(observed(folder).memo.folders) == set(before)


def test_a_folder_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "trips")
    put(folder / ("deeper/" * 20 + "rows.csv"), NOW)
    with pytest.raises(PermanentError, match="more than 16 levels"):
        observed(folder)


def test_plain_levels_are_partitions_too(tmp_path: Path) -> None:
    """A writer need not name its columns."""
    folder = tmp_path / "trips"
    put(folder / "2026/03/01/rows.csv", NOW - HOUR)
    folders: dict[str, Folder] = observed(folder).memo.folders
    assert [path for path, one in folders.items() if one.is_partition] == ["2026/03/01"]


def test_a_name_that_no_database_takes_is_shown_escaped(tmp_path: Path) -> None:
    """A disk takes any bytes for a name. The view holds text that can be stored and printed."""
    folder = made(tmp_path / "trips")
    put(folder / "dt=\udcff\x1b[2J/.part-1.inprogress.7", NOW)
    view = observed(folder).view
    texts = [*view.notes[Service.PARTITION_COMMIT], *(one.time for one in view.timeline.instants)]
    assert any("dt=\\udcff\\x1b[2J" in text for text in texts)
    assert all(text.isprintable() for text in texts)
