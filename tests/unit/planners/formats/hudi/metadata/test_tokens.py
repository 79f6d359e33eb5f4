"""A token shows every change of a table's timeline, wherever the properties say that it is."""

from __future__ import annotations

import hashlib
from datetime import UTC
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.metadata.tokens import Tokens
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import LocalStorage
from tests.support.hudi.hudi_table import HudiTable

FACTS = "hoodie.table.name=trips\nhoodie.table.type=MERGE_ON_READ\n"
LAYOUT_1 = f"{FACTS}hoodie.table.version=6\nhoodie.timeline.layout.version=1\n"
LAYOUT_2 = f"{FACTS}hoodie.table.version=9\nhoodie.timeline.layout.version=2\n"


class ByContent(LocalStorage):
    """Knows only contents, as an object store does: a file that is put back has the version that it had. Each request
    is kept in `asked`. The content of `afterwards` is written right after the next version was told.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.afterwards: dict[Path, str] = {}

    def stamp(self, location: str) -> str:
        self.asked.append(f"stamp {Path(location).name}")
        names = sorted(path.name for path in Path(location).iterdir())
        return hashlib.md5(" ".join(names).encode(), usedforsecurity=False).hexdigest()

    def version(self, location: str) -> str:
        self.asked.append(f"version {Path(location).name}")
        try:
            told = hashlib.md5(Path(location).read_bytes(), usedforsecurity=False).hexdigest()
        except FileNotFoundError:
            raise FileNotFoundError(location) from None
        while self.afterwards:
            path, content = self.afterwards.popitem()
            path.write_text(content)
        return told

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        self.asked.append(f"read {Path(location).name}")
        return super().read(location, limit=limit)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".hoodie" / "timeline").mkdir(parents=True)
    return tmp_path / ".hoodie"


def _token(tokens: Tokens, home: Path, storage: LocalStorage) -> str:
    return tokens.of(str(home.parent), storage)


@pytest.mark.parametrize(("properties", "folder"), [(LAYOUT_1, ".hoodie"), (LAYOUT_2, "timeline")])
def test_a_poll_asks_for_one_version_and_one_listing(home: Path, properties: str, folder: str) -> None:
    """The properties name the place of the timeline, and are read once."""
    (home / "hoodie.properties").write_text(properties)
    tokens, storage = Tokens(), ByContent()
    first = _token(tokens, home, storage)
    storage.asked.clear()

    assert _token(tokens, home, storage) == first
    assert storage.asked == ["version hoodie.properties", f"stamp {folder}"]


def test_a_table_that_is_upgraded_and_downgraded_is_watched_where_its_timeline_is(home: Path) -> None:
    """A downgrade may leave the other layout's folder behind, with files in it."""
    tokens, storage = Tokens(), ByContent()
    (home / "timeline" / "left-behind").touch()
    for number, (properties, folder) in enumerate(
        [(LAYOUT_1, home), (LAYOUT_2, home / "timeline"), (LAYOUT_1, home), (LAYOUT_2, home / "timeline")]
    ):
        before = _token(tokens, home, storage) if number else ""
        (home / "hoodie.properties").write_text(properties)
        after = _token(tokens, home, storage)
        assert after != before
        (folder / f"2026010100000000{number}.commit.requested").touch()
        assert _token(tokens, home, storage) != after


def test_properties_that_change_while_they_are_read_are_not_mistaken_for_those_before(home: Path) -> None:
    """An upgrade that fails puts the old ones back. Then the old version must not stand for the new timeline."""
    (home / "hoodie.properties").write_text(LAYOUT_1)
    tokens, storage = Tokens(), ByContent()
    storage.afterwards = {home / "hoodie.properties": LAYOUT_2}
    _token(tokens, home, storage)
    (home / "hoodie.properties").write_text(LAYOUT_1)

    before = _token(tokens, home, storage)
    (home / "20260101000000000.commit.requested").touch()
    assert _token(tokens, home, storage) != before


def test_a_table_whose_properties_are_just_being_replaced_has_a_token(home: Path) -> None:
    """There is only the backup for a moment. Meanwhile both possible folders of the timeline are watched."""
    (home / "hoodie.properties.backup").write_text(LAYOUT_2)
    tokens, storage = Tokens(), ByContent()
    seen = {_token(tokens, home, storage)}
    for folder in (home, home / "timeline"):
        (folder / "20260101000000000.commit.requested").touch()
        seen.add(_token(tokens, home, storage))
    (home / "hoodie.properties").write_text(LAYOUT_2)
    seen.add(_token(tokens, home, storage))

    assert len(seen) == 4


def test_a_place_without_a_table_has_no_token(tmp_path: Path) -> None:
    """The error is permanent."""
    with pytest.raises(PermanentError, match=r"it has no \.hoodie folder"):
        Tokens().of(str(tmp_path), LocalStorage())


@pytest.mark.parametrize("version", [6, 9])
def test_properties_that_are_written_anew_change_the_token(tmp_path: Path, version: int) -> None:
    """No entry of a folder changes: some file systems write in place."""
    table = HudiTable(tmp_path, version=version, clock=ManualClock(), zone=UTC)
    table.commit_write(table.begin_write())
    tokens, storage, properties = Tokens(), LocalStorage(), tmp_path / ".hoodie" / "hoodie.properties"
    before = tokens.of(str(tmp_path), storage)
    properties.write_text(properties.read_text() + "hoodie.table.metadata.partitions=files\n")

    assert tokens.of(str(tmp_path), storage) != before
