"""What may be deleted with the expired snapshots: files that only they need. If a file is unreadable, nothing is
deleted.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.deletion.expiry import Expiry, expirable
from lakewarden.planners.formats.iceberg.deletion.reachable import (
    DeletableFile,
    FileKind,
    NoSuchBranchError,
    Suspects,
    metadata_files,
    misread,
    only_reachable_from,
    positions,
)
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, CorruptMetadataError, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions, IncrementalReader
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_history import DAY, History, histories
from tests.support.iceberg.iceberg_look import CountingStorage
from tests.support.iceberg.iceberg_table import POSITION_DELETES, IcebergTable
from tests.support.values import NOW


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Make a table without rows."""
    return IcebergTable(tmp_path / "trips")


def metadata_of(table: IcebergTable) -> TableMetadata:
    return read_table(str(table.metadata_file), LocalStorage())


def needed_by(table: IcebergTable, snapshots: Collection[int]) -> set[tuple[FileKind, str]]:
    """Return the files that snapshots need, as the table's writer recorded them."""
    needed = set()
    for one in snapshots:
        needed.add((FileKind.MANIFEST_LIST, table.snapshots[one].line["manifest-list"]))
        needed |= {(FileKind.MANIFEST, str(manifest.path)) for manifest in table.snapshots[one].manifests}
        needed |= {(FileKind.CONTENT, file.path) for file in table.live(one)}
    return needed


def written_at_random(table: IcebergTable, chance: random.Random) -> None:
    """Apply random appends, deletes, rewrites, branches and rollbacks."""
    for _ in range(chance.randrange(3, 9)):
        match chance.choice(["append", "delete", "drop", "rewrite", "manifests", "branch", "roll back"]):
            case "delete" if table.live():
                of = chance.choice(table.live())
                table.commit("delete", add=[table.file(content=POSITION_DELETES, references=of.path)])
            case "drop" if table.live():
                table.commit("delete", remove=[chance.choice(table.live())])
            case "rewrite" if table.live():
                table.rewrite()
            case "manifests" if table.live():
                table.rewrite_manifests()
            case "branch":
                table.commit("append", add=[table.file(1)], branch="audit")
            case "roll back" if table.current is not None:
                table.roll_back(chance.choice(list(table.snapshots)))
            case _:
                table.append()


@pytest.mark.parametrize("seed", range(25))
def test_exactly_what_no_other_snapshot_needs_may_go(table: IcebergTable, seed: int) -> None:
    """This holds for any history, and for any expired snapshots."""
    chance = random.Random(seed)
    written_at_random(table, chance)
    expired = [one for one in table.snapshots if chance.random() < 0.5]
    found = only_reachable_from(expired, metadata_of(table), LocalStorage())
    expected = needed_by(table, expired) - needed_by(table, set(table.snapshots) - set(expired))
    assert {(file.kind, file.path) for file in found.files()} == expected


def test_a_file_that_is_written_differently_is_the_same_file(table: IcebergTable) -> None:
    """One writer of a table writes `file:/x`, another `/x`. A file that a snapshot of the second one needs is kept."""
    kept = table.file()
    expired = table.append(kept)
    table.commit("replace", remove=[kept])
    table.append(type(kept)(path=f"file:{kept.path}"))
    assert kept.path not in only_reachable_from([expired], metadata_of(table), LocalStorage())


def test_statistics_go_with_their_snapshot(table: IcebergTable) -> None:
    """No other snapshot needs them."""
    expired, kept = table.append(), table.append()
    statistics = {expired: ("/s/old.stats",), kept: ("/s/new.stats",)}
    metadata = replace(metadata_of(table), statistics_of=statistics)
    found = only_reachable_from([expired], metadata, LocalStorage()).files()
    assert [file.path for file in found if file.kind is FileKind.STATISTICS] == ["/s/old.stats"]


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("what", ["gone", "broken"])
def test_if_a_snapshot_that_stays_cannot_be_read_nothing_goes(table: IcebergTable, what: str, *, is_list: bool) -> None:
    """The files that it needs are not known. The snapshot is named with its tag, and with a remedy."""
    expired = table.append()
    tagged = table.commit("overwrite", add=[table.file()], remove=table.live())
    table.refs["audit"] = {"snapshot-id": tagged, "type": "tag"}
    table.commit("overwrite", add=[table.file()], remove=table.live(), merging=True)
    lost = _only_of(table, tagged, expired, is_list=is_list)
    _damage(lost, what)
    with pytest.raises(CorruptMetadataError if what == "broken" else VanishedError) as raised:
        only_reachable_from([expired], metadata_of(table), LocalStorage())
    assert f"snapshot {tagged} (the tag 'audit') is missing its manifest {'list ' * is_list}{lost}" in str(raised.value)
    assert "so no file is deleted; " in str(raised.value)
    assert "restore it from a backup" in str(raised.value)
    assert "remove the tag 'audit', and then expire it by hand" in str(raised.value)
    assert f"by_id({tagged})" in str(raised.value)


@pytest.mark.parametrize("what", ["gone", "broken"])
def test_all_snapshots_that_need_a_lost_manifest_are_named(table: IcebergTable, what: str) -> None:
    """A manifest may be one of many snapshots. If the current snapshot is among them, no expiry helps."""
    snapshots = [table.append() for _ in range(13)]
    lost = _only_of(table, snapshots[1], snapshots[0], is_list=False)
    _damage(lost, what)
    told = _refused(table)
    assert f"snapshot {snapshots[-1]} (the branch 'main') is missing its manifest {lost}" in told
    assert "and so have 11 others: " in told
    assert "restore it from a backup" in told
    assert "by_id" not in told
    table.commit("overwrite", add=[table.file()], remove=table.live(), merging=True)
    told = _refused(table)
    assert f"by_ids([{snapshots[1]}, {snapshots[2]}, " in told
    assert str(snapshots[11]) not in told
    table.refs["audit"] = {"snapshot-id": snapshots[5], "type": "tag"}
    table.save()
    told = _refused(table)
    assert f"snapshot {snapshots[5]} (the tag 'audit') is missing its manifest {lost}" in told
    assert f"by_id({snapshots[5]})" in told


def _refused(table: IcebergTable) -> str:
    with pytest.raises((CorruptMetadataError, VanishedError)) as raised:
        Suspects([_unknown(table)], Spelling()).spare_reachable(metadata_of(table), LocalStorage())
    return str(raised.value)


def _unknown(table: IcebergTable) -> DeletableFile:
    return DeletableFile(FileKind.ORPHAN, f"{table.folder}/data/unknown.parquet")


def test_what_is_lost_after_the_look_is_named_too(table: IcebergTable) -> None:
    """A run looks again before it deletes. What it had read before stays known."""
    expired, tagged = table.append(), table.append()
    table.commit("overwrite", add=[table.file()], remove=table.live())
    suspects = only_reachable_from([expired], metadata_of(table), LocalStorage())
    table.append()
    Path(table.snapshots[tagged].line["manifest-list"]).unlink()
    suspects.spare_reachable(metadata_of(table), LocalStorage(), without=[expired])
    newest = table.append()
    Path(table.snapshots[newest].line["manifest-list"]).unlink()
    with pytest.raises(VanishedError, match=f"snapshot {newest} .* is missing its manifest list"):
        suspects.spare_reachable(metadata_of(table), LocalStorage(), without=[expired])


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("what", ["gone", "broken"])
def test_what_an_expiring_snapshot_has_lost_is_told_and_the_rest_goes(
    table: IcebergTable, what: str, *, is_list: bool
) -> None:
    """The files that only the lost manifest named are left to orphans. No file of a snapshot that stays goes."""
    first, second = table.append(), table.append()
    old = table.live()
    table.commit("overwrite", add=[table.file()], remove=old)
    lost = _only_of(table, second, first, is_list=is_list)
    _damage(lost, what)
    found = only_reachable_from([first, second], metadata_of(table), LocalStorage())
    assert found.lost == [str(lost)]
    paths = {file.path for file in found.files()}
    assert old[0].path in paths or old[1].path in paths
    assert {file.path for file in table.live()}.isdisjoint(paths)


def _only_of(table: IcebergTable, snapshot: int, other: int, *, is_list: bool) -> Path:
    """Return the manifest list of a snapshot, or a manifest that another snapshot does not have."""
    if is_list:
        return Path(table.snapshots[snapshot].line["manifest-list"])
    others = {one.path for one in table.snapshots[other].manifests}
    return min(one.path for one in table.snapshots[snapshot].manifests if one.path not in others)


def _damage(file: Path, what: str) -> None:
    file.write_bytes(file.read_bytes()[:200]) if what == "broken" else file.unlink()


def test_what_the_table_needs_by_now_is_spared(table: IcebergTable) -> None:
    """A snapshot that came after the list may need one of its files again. A cherry-pick is an example."""
    picked = table.file()
    expired = table.append(picked)
    table.commit("delete", remove=[picked])
    suspects = only_reachable_from([expired], metadata_of(table), LocalStorage())
    assert picked.path in suspects
    table.append(picked)
    suspects.spare_reachable(metadata_of(table), LocalStorage(), without=[expired])
    assert picked.path not in suspects


def test_a_manifest_that_a_new_snapshot_takes_over_is_spared(table: IcebergTable) -> None:
    """If a branch is created from an expiring snapshot and committed to, it shares the manifests of that snapshot."""
    expired = table.append()
    table.commit("delete", remove=table.live())
    suspects = only_reachable_from([expired], metadata_of(table), LocalStorage())
    assert {file.kind for file in suspects.files()} == {FileKind.CONTENT, FileKind.MANIFEST, FileKind.MANIFEST_LIST}
    table.refs["audit"] = {"snapshot-id": expired, "type": "branch"}
    table.commit("append", add=[table.file()], branch="audit")
    suspects.spare_reachable(metadata_of(table), LocalStorage(), without=[expired])
    assert {file.kind for file in suspects.files()} == {FileKind.MANIFEST_LIST}


def test_a_manifest_is_read_once_however_often_the_table_is_looked_at(table: IcebergTable) -> None:
    """A manifest never changes. Of a table with thousands of manifests only the new ones cost anything."""
    expired = table.append()
    table.commit("overwrite", add=[table.file()], remove=table.live())
    table.append()
    storage = CountingStorage()
    suspects = only_reachable_from([expired], metadata_of(table), storage)
    read = [name for name in storage.names if "-m" in name]
    assert len(read) == len(set(read))
    table.append()
    storage.names.clear()
    suspects.spare_reachable(metadata_of(table), storage, without=[expired])
    assert len([name for name in storage.names if "-m" in name]) == 1


def test_a_manifest_list_is_read_once_however_often_the_table_is_looked_at(table: IcebergTable) -> None:
    """A table has one for each snapshot. All of them were read twice for a plan, and again for each batch."""
    snapshots = [table.append() for _ in range(6)]
    table.commit("delete", remove=table.live())
    storage = CountingStorage()
    suspects = only_reachable_from(snapshots[:2], metadata_of(table), storage)
    lists = [name for name in storage.names if name.startswith("snap-")]
    assert sorted(lists) == sorted(path.name for path in table.metadata.glob("snap-*"))
    table.append()
    some = suspects.among(suspects.files())
    for held in (suspects, some):
        storage.names.clear()
        held.spare_reachable(metadata_of(table), storage, without=snapshots[:2])
        assert [name[:5] for name in storage.names] == ["snap-", *(name[:5] for name in storage.names[1:])]
        assert len([name for name in storage.names if name.startswith("snap-")]) == 1


def test_what_only_some_suspects_knew_is_not_taken_from_the_others(table: IcebergTable) -> None:
    """If a list is read for all suspects, only the suspects that it names are removed."""
    expired = [table.append(), table.append()]
    table.commit("delete", remove=table.live())
    suspects = only_reachable_from(expired, metadata_of(table), LocalStorage())
    some = suspects.among(suspects.files()[:3])
    table.append(*(type(table.file())(path=file.path) for file in suspects.files() if file.kind is FileKind.CONTENT))
    some.spare_reachable(metadata_of(table), LocalStorage(), without=expired)
    assert FileKind.CONTENT not in {file.kind for file in some.files()}


class Patient(LocalStorage):
    """Answers no request for a list before four requests are waiting."""

    def __init__(self) -> None:
        self.asked = threading.Barrier(4, timeout=30)

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        """Wait for the other requests."""
        if "/snap-" in location:
            self.asked.wait()
        return super().read(location, limit=limit)


def test_lists_are_read_several_at_a_time(table: IcebergTable) -> None:
    """A store answers in fifty milliseconds, and a table has fifty thousand lists."""
    for _ in range(8):
        table.append()
    suspects = Suspects([], Spelling())
    suspects.spare_reachable(metadata_of(table), Patient())


def test_what_names_others_is_deleted_after_them(table: IcebergTable) -> None:
    """If the deletion is killed in between, the manifest still tells which files it named."""
    expired = table.append()
    table.commit("delete", remove=table.live())
    kinds = [file.kind for file in only_reachable_from([expired], metadata_of(table), LocalStorage()).files()]
    assert kinds == [FileKind.CONTENT, FileKind.MANIFEST, FileKind.MANIFEST_LIST]


def test_metadata_files_lead_to_older_ones_and_all_of_them_are_known(tmp_path: Path) -> None:
    """The log of one file is bounded. The oldest file that exists knows the earlier ones."""
    for number, log in {1: [], 2: [1], 3: [1, 2], 4: [2, 3]}.items():
        names = ", ".join(f'{{"metadata-file": "{tmp_path}/v{one}.metadata.json"}}' for one in log)
        text = f'{{"format-version": 2, "location": "{tmp_path}", "last-updated-ms": 0, "metadata-log": [{names}]}}'
        (tmp_path / f"v{number}.metadata.json").write_text(text)
    newest = read_table(f"{tmp_path}/v4.metadata.json", LocalStorage())
    assert metadata_files(newest, LocalStorage()) == {f"{tmp_path}/v{one}.metadata.json" for one in range(1, 5)}
    (tmp_path / "v2.metadata.json").unlink()
    assert f"{tmp_path}/v1.metadata.json" in metadata_files(newest, LocalStorage())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:///x/f", "/x/f"),
        ("file:/x/f", "/x/f"),
        ("file://localhost/x/f", "/x/f"),
        ("/x//y/f", "/x/y/f"),
        ("s3a://b/t/f", "s3://b/t/f"),
        ("s3n://b/t//f", "s3://b/t/f"),
        ("abfs://c@a/f", "abfss://c@a/f"),
    ],
)
def test_paths_of_one_file_are_spelled_alike(one: str, other: str) -> None:
    """Engines spell a path in different ways."""
    assert Spelling()(one) == Spelling()(other)


@pytest.mark.parametrize(("one", "other"), [("/x/p=a%2Fb/f", "/x/p=a/b/f"), ("file:/x/a%20b/f", "/x/a b/f")])
def test_paths_are_taken_letter_by_letter(one: str, other: str) -> None:
    """Iceberg's paths are not encoded. A per cent sign stands for itself in every scheme."""
    assert Spelling()(one) != Spelling()(other)
    assert Spelling()(one).endswith(one.removeprefix("file:"))


def test_a_link_to_a_folder_is_seen_through(tmp_path: Path) -> None:
    """The metadata may name the link, and the listing the folder."""
    (tmp_path / "real" / "p=[1]*").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert Spelling()(f"file:{tmp_path}/link/p=[1]*/f") == f"{tmp_path}/real/p=[1]*/f"
    assert Spelling().folder(f"{tmp_path}/link/") == f"{tmp_path}/real"


def test_a_file_that_is_known_under_another_host_stays() -> None:
    """Its name does not show whether it is the same file."""
    listed = [DeletableFile(FileKind.ORPHAN, f"hdfs://{host}/t/f") for host in ("nn1:8020", "nn2:8020")]
    suspects = Suspects([listed[0]], Spelling())
    suspects.spare("hdfs://nn1/t/f")
    assert not suspects
    both = Suspects(listed, Spelling())
    both.spare("hdfs://nn2:8020/t/f")
    assert not both


# What incremental readers still need: the snapshot at which each may stand, and all of main after it.

NOTHING_ELSE: dict[str, Any] = {"longest_outage": "0s", "flink_restores": "0s", "keep_last_flink_commit": False}
OPERATIONS = ("append", "append", "replace", "overwrite", "delete")


def reader(lag: str, **said: Any) -> IncrementalReader:
    """Return a reader that its owner declares."""
    return IncrementalReader.model_validate({"name": "export", "longest_lag": lag, **said})


def expiry(metadata: TableMetadata, *readers: IncrementalReader, now: datetime = NOW) -> Expiry:
    """Return what may expire of a table that keeps as little as it may, but for its readers."""
    table = IcebergTableOptions(readers=readers, **NOTHING_ELSE)
    return expirable(metadata, CleanOptions.model_validate({"max_snapshot_age": "0s"}), table, now)


def daily(*operations: str) -> TableMetadata:
    """Return a table whose main got these snapshots, one a day, the last of them an hour ago."""
    history = History(at=NOW - timedelta(hours=1) - DAY * (len(operations) - 1))
    for at, operation in enumerate(operations):
        history.commit()
        history.snapshots[at] = replace(history.snapshots[at], operation=operation)
        history.at += DAY
    return history.metadata()


def stands_at(main: list[Snapshot], back: int, kind: str) -> Snapshot | None:
    """Return where a reader stands that has read main but for its newest snapshots. This is how readers go on, told
    without our code: a scan stops at the snapshot that was the newest, a stream at the last append that it has read.
    """
    seen = main[back:]
    return next((one for one in seen if kind == "scan" or one.operation == "append"), None)


@st.composite
def mixed(draw: st.DrawFn) -> History:
    """Draw a history of which some snapshots are no appends."""
    history = draw(histories(flink=False))
    history.snapshots = [replace(one, operation=draw(st.sampled_from(OPERATIONS))) for one in history.snapshots]
    return history


BRANCHES = st.sampled_from([MAIN, "audit", "dev"])


def snapshots_of(metadata: TableMetadata, branch: str) -> list[Snapshot] | None:
    """Return the snapshots of a branch, the newest first; None if there is no such branch."""
    heads = {ref.name: ref.snapshot for ref in metadata.refs if ref.is_branch}
    return list(metadata.ancestors(heads[branch])) if branch in heads else None


@given(
    history=mixed(), lag=st.sampled_from(["1h", "2d", "9d"]), kind=st.sampled_from(["stream", "scan"]), name=BRANCHES
)
def test_a_reader_that_is_no_further_behind_than_declared_finds_its_snapshot_and_all_after_it(
    history: History, lag: str, kind: str, name: str
) -> None:
    """Wherever it stands, if it has read all of its branch that is older than its lag. Nothing on the way to the head
    is missing: a reader follows parents.
    """
    metadata, declared = history.metadata(), reader(lag, kind=kind, branch=name)
    branch = snapshots_of(metadata, name)
    if branch is None:
        return
    left = [one for one in branch if one.id not in expiry(metadata, declared).ids]
    for back in range(len(branch)):
        if any(one.at < NOW - declared.longest_lag for one in branch[:back]):
            break  # it is further behind
        stands = stands_at(branch, back, kind)
        if stands is not None:
            assert left[: branch.index(stands) + 1] == branch[: branch.index(stands) + 1]


@given(history=mixed(), lag=st.sampled_from(["1h", "2d"]), name=BRANCHES)
def test_a_reader_keeps_nothing_of_other_branches(history: History, lag: str, name: str) -> None:
    """Off its own branch as much expires as without it."""
    metadata = history.metadata()
    branch = snapshots_of(metadata, name)
    if branch is not None:
        own = {one.id for one in branch}
        assert set(expiry(metadata).ids) - own == set(expiry(metadata, reader(lag, branch=name)).ids) - own


def audited() -> History:
    """Return a table with five daily appends on main, and five later ones on the branch audit."""
    history = History(at=NOW - 9 * DAY)
    for number in range(10):
        history.commit(MAIN if number < 5 else "audit")
        history.at += DAY
    return history


def test_a_branch_with_a_reader_outlives_its_age() -> None:
    """Without the reader it expires with all its snapshots. Tags expire as before."""
    history = audited()
    history.refs["audit"] = replace(history.refs["audit"], max_ref_age=timedelta(milliseconds=1))
    metadata = history.metadata()
    later = NOW + DAY
    assert [one.name for one in expiry(metadata, now=later).refs] == ["audit"]

    found = expiry(metadata, reader("3d", kind="scan", branch="audit"), now=later)
    assert found.refs == ()
    assert found.ids == (1, 2, 3, 4, 6)
    assert any("reader export is declared on it" in one for one in found.kept)
    assert any("all of the branch 'audit' since snapshot 7 stays" in one for one in found.kept)


def test_a_reader_on_a_branch_that_is_not_there_lets_nothing_expire() -> None:
    """A name with a mistake in it would protect nothing. Its position says why. A tag is no branch."""
    history = audited()
    history.point("dev", 3, is_branch=False)
    metadata = history.metadata()
    for name in ("adit", "dev"):
        declared = reader("3d", branch=name)
        with pytest.raises(NoSuchBranchError, match=f"reader export .* the branch '{name}'.* has no such branch: corr"):
            expiry(metadata, declared)
        (position,) = positions([declared], metadata, NOW)
        assert (position.unreadable or "").endswith("or remove the reader if the branch was dropped")


def test_the_position_of_a_reader_counts_what_its_branch_got() -> None:
    """These are the writes of the branch since the lag, with those that it shares with main."""
    metadata = audited().metadata()
    (position,) = positions([reader("3d", kind="scan", branch="audit")], metadata, NOW)
    assert (position.behind, position.needs) == (4, "6")


@given(history=mixed(), lag=st.sampled_from(["1h", "2d"]), kind=st.sampled_from(["stream", "scan"]))
def test_it_is_known_when_the_next_snapshot_of_a_reader_may_expire(history: History, lag: str, kind: str) -> None:
    """An observation is not kept for longer than that, and not asked for before."""
    metadata, declared = history.metadata(), reader(lag, kind=kind)
    found = expiry(metadata, declared)
    later = NOW + 36_500 * DAY if found.next_at is None else found.next_at
    assert (set(expiry(metadata, declared, now=later).ids) > set(found.ids)) == (found.next_at is not None)


def test_the_last_snapshot_before_the_lag_stays_for_a_reader_stands_at_it() -> None:
    """An incremental read begins after a snapshot that has to be there."""
    metadata = daily(*["append"] * 6)
    assert expiry(metadata).ids == (1, 2, 3, 4, 5)
    assert expiry(metadata, reader("2d", kind="scan")).ids == (1, 2, 3)
    assert expiry(metadata, reader("2d")).ids == (1, 2, 3)


def test_a_stream_that_waits_at_an_old_append_is_not_behind() -> None:
    """It passes rewrites by, and writes down none of them: its append has to stay, however old it is."""
    metadata = daily("append", "append", "replace", "replace", "replace", "overwrite")
    assert expiry(metadata, reader("2d")).ids == (1,)
    assert expiry(metadata, reader("2d", kind="scan")).ids == (1, 2, 3)


def test_a_stream_that_never_saw_an_append_stands_at_the_oldest_snapshot() -> None:
    """Where no append is known that it can have passed to, main stays whole. A reader that is no stream says so."""
    metadata = daily(*["overwrite"] * 5)
    assert expiry(metadata, reader("1d")).ids == ()
    assert expiry(metadata, reader("1d")).next_at is None
    assert expiry(metadata, reader("1d", kind="scan")).ids == (1, 2, 3)


def test_the_slowest_of_several_readers_counts_and_each_is_named() -> None:
    """An operator sees for which reader so much stays, and since which snapshot."""
    metadata = daily(*["append"] * 6)
    slow, fast = reader("3d"), reader("1d", name="stream-1", kind="scan")
    found = expiry(metadata, slow, fast)
    assert found.ids == expiry(metadata, slow).ids == (1, 2)
    assert found.kept == (
        "3 snapshots are needed by reader export (a stream, at most 3d behind): all of main since snapshot 3 stays",
        "1 snapshot is needed by reader stream-1 (a scan, at most 1d behind): all of main since snapshot 5 stays",
    )


def test_what_a_longest_outage_keeps_is_not_counted_twice() -> None:
    """One sentence for each reason."""
    metadata = daily(*["append"] * 6)
    table = IcebergTableOptions.model_validate(
        {**NOTHING_ELSE, "longest_outage": "2d", "readers": [{"name": "export", "longest_lag": "3d"}]}
    )
    found = expirable(metadata, CleanOptions.model_validate({"max_snapshot_age": "0s"}), table, NOW)
    assert found.kept == (
        "1 snapshot is younger than longest_outage (2d)",
        "2 snapshots are needed by reader export (a stream, at most 3d behind): all of main since snapshot 3 stays",
    )


def test_a_view_says_how_much_each_reader_may_not_have_read() -> None:
    """Rewrites are no commits that anything has to read."""
    metadata = daily("append", "append", "append", "replace", "append")
    [found] = positions([reader("2d")], metadata, NOW)
    assert (found.name, found.at, found.behind, found.needs) == ("export", "2d back at most", 1, "3")
    assert found.unread_since == NOW - timedelta(hours=1)
    [none] = positions([reader("2d")], History().metadata(), NOW)
    assert (none.behind, none.unread_since, none.needs) == (0, None, None)


def test_two_readers_with_one_name_are_refused() -> None:
    """Messages and metrics would not tell them apart."""
    assert misread([reader("1d"), reader("2d", name="other")]) is None
    assert misread([reader("1d"), reader("2d")]) == "two readers have the name export"
