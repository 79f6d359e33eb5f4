"""What a table knows: whatever a snapshot, a tag, a branch or a changelog names."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.deletion import known as module
from lakewarden.planners.formats.paimon.deletion.known import KnownNames
from lakewarden.planners.formats.paimon.metadata.files import CorruptMetadataError, NewerVersionError
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.paimon_table import ADD, DELETE, PaimonTable


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    """Return an empty table."""
    return PaimonTable(tmp_path / "db.db" / "trips")


def known(table: PaimonTable) -> KnownNames:
    found = KnownNames(str(table.folder), LocalStorage())
    found.look()
    return found


def unknown(table: PaimonTable, names: KnownNames) -> set[str]:
    """Return the metadata files on disk that the names do not have."""
    return {one.name for one in (table.folder / "manifest").iterdir() if one.name not in names}


_ACTS = st.lists(
    st.sampled_from(
        ["append", "compact", "upgrade", "merge", "overwrite", "tag", "branch", "changelog", "lose", "vectors"]
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=80, deadline=None)
@given(_ACTS)
def test_exactly_what_something_names_is_known(acts: list[str]) -> None:
    """For every history: no file that a snapshot, a tag, a branch or a changelog names is unknown, and a file that no
    commit has is.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = PaimonTable(Path(folder) / "t")
        table.append()
        needed, lost = {one.name for one in table.live()}, set[str]()
        for number, act in enumerate(acts):
            match act:
                case "append":
                    table.append()
                case "merge":
                    table.commit([(ADD, table.file())], merging=True)
                case "overwrite":
                    table.commit([*((DELETE, one) for one in table.live()), (ADD, table.file())], kind="OVERWRITE")
                case "tag" | "branch":
                    getattr(table, act)(f"x{number}")
                case "changelog":
                    table.keep_changelog(table.newest)
                case "vectors":
                    table.delete_vectors({table.live()[0].name: 1})
                    needed.add("index-1")
                    table.append()
                case "lose":
                    lost.add(table.file().name)
                case _:
                    getattr(table, act)()
            needed |= {one.name for one in table.live()}
        found = known(table)
        assert {one for one in needed if one not in found} == set()
        assert unknown(table, found) == set()
        assert not {one for one in lost if one in found}


@pytest.mark.parametrize("by", ["tag", "branch", "keep_changelog"])
def test_what_alone_a_tag_a_branch_or_a_changelog_names_is_known(table: PaimonTable, by: str) -> None:
    table.append()
    held = table.live()[0].name
    getattr(table, by)(1 if by == "keep_changelog" else "kept")
    table.commit([*((DELETE, one) for one in table.live()), (ADD, table.file())], kind="OVERWRITE")
    table.snapshot_file(1).unlink()
    assert held in known(table)


def test_a_snapshot_that_becomes_a_tag_while_it_expires_stays_known(table: PaimonTable) -> None:
    """What was known once stays known, and what came is read."""
    table.append()
    found = known(table)
    first = table.live()[0].name
    table.tag("late", 1)
    table.commit([*((DELETE, one) for one in table.live()), (ADD, table.file())], kind="OVERWRITE")
    table.snapshot_file(1).unlink()
    found.look()
    assert first in found
    assert table.live()[0].name in found


def test_a_rollback_gives_a_number_to_another_commit_and_that_is_read(table: PaimonTable) -> None:
    """Its number was known, and what it names was not."""
    table.append()
    table.append()
    found = known(table)
    table.roll_back(1)
    table.append()
    found.look()
    assert {one.name for one in table.live() if one.name not in found} == set()


@pytest.mark.parametrize("number", [1, 2])
def test_a_manifest_that_is_gone_holds_everything_back(table: PaimonTable, number: int) -> None:
    """What it named is not known. The message says what to do."""
    table.append()
    table.append()
    table.manifest_file(table.manifests[number][-1]).unlink()
    with pytest.raises(TemporaryError, match="let it run again"):
        known(table)


@pytest.mark.parametrize("left", ["below a gap", "as a changelog"])
def test_what_an_expiry_has_left_is_known_as_far_as_it_is_there(table: PaimonTable, left: str) -> None:
    """Its lists and manifests may be gone. Paimon's expiry deletes the list of the base of a changelog that stays."""
    for _ in range(4):
        table.append()
    if left == "as a changelog":
        table.keep_changelog(1)
    (table.folder / "manifest" / table.snapshots[1]["baseManifestList"]).unlink()
    table.snapshot_file(2 if left == "below a gap" else 1).unlink()
    found = known(table)
    assert {one.name for one in table.live(1) if one.name not in found} == set()


def test_a_manifest_that_is_damaged_lets_nothing_be_an_orphan(table: PaimonTable) -> None:
    table.append()
    table.append()
    file = table.manifest_file(table.manifests[1][0])
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptMetadataError):
        known(table)


@pytest.mark.parametrize("where", ["manifest", "tag", "branch", "snapshot"])
def test_a_field_of_a_newer_release_lets_nothing_be_an_orphan(table: PaimonTable, where: str) -> None:
    """It may name a file, wherever it lies."""
    table.append()
    table.append(table.file(stated={"_NEWER": 7} if where == "manifest" else {}))
    if where != "manifest":
        file = table.snapshot_file(1) if where == "snapshot" else getattr(table, where)("new")
        file.write_text(json.dumps({**json.loads(file.read_text()), "_NEWER": "side-1"}))
    with pytest.raises(NewerVersionError, match="_NEWER"):
        known(table)


def test_a_table_that_never_rests_is_compared_later(table: PaimonTable) -> None:
    table.append()

    class Restless(LocalStorage):
        def read(self, location: str, *, limit: int = 2**26) -> bytes:
            if "/snapshot/" in location:
                table.append()
            return super().read(location, limit=limit)

    with pytest.raises(TemporaryError, match="changes while it is read"):
        KnownNames(str(table.folder), Restless()).look()


def test_more_names_than_are_held_are_refused(table: PaimonTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    table.append(*(table.file() for _ in range(9)))
    with pytest.raises(PermanentError, match="keep fewer snapshots"):
        known(table)
