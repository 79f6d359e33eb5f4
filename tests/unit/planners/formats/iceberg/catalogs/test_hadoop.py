"""The newest version of a table in a folder, whatever its hint says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.catalogs.hadoop import HadoopTables
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import LocalStorage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lake/sales/orders/metadata").mkdir(parents=True)
    return tmp_path / "lake/sales/orders"


def _put(folder: Path, *names: str, hint: object = None) -> None:
    for name in names:
        (folder / "metadata" / name).write_text("{}")
    if hint is not None:
        (folder / "metadata/version-hint.text").write_text(f"{hint}\n")


class CountingStorage(LocalStorage):
    """Local disks, and a count of the requests to them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        self.asked.append(Path(location).name)
        return super().read(location, limit=limit)


def test_the_hint_and_one_look_further_are_enough(folder: Path) -> None:
    """That is the cost of a poll while the writer keeps the hint up to date."""
    _put(folder, *(f"v{n}.metadata.json" for n in range(1, 8)), hint=7)
    tables, storage = HadoopTables(), CountingStorage()
    tables.metadata_file(str(folder), storage)
    storage.asked.clear()

    assert tables.metadata_file(str(folder), storage) == f"{folder}/metadata/v7.metadata.json"
    assert storage.asked == ["version-hint.text", "v8.metadata.json"]


@given(
    versions=st.integers(1, 12),
    behind=st.integers(0, 12),
    hinted=st.booleans(),
    more=st.integers(0, 4),
    spelling=st.sampled_from(["v{}.metadata.json", "v{}.gz.metadata.json", "v{}.metadata.json.gz"]),
)
def test_a_hint_that_lags_behind_hides_no_commit(
    tmp_path_factory: pytest.TempPathFactory, versions: int, behind: int, hinted: bool, more: int, spelling: str
) -> None:
    """A writer may die between its commit and its hint, again and again. The hint may also be missing from the
    start.
    """
    folder = tmp_path_factory.mktemp("orders")
    (folder / "metadata").mkdir()
    tables, storage = HadoopTables(), LocalStorage()
    _put(folder, *(spelling.format(n) for n in range(1, versions + 1)))
    _put(folder, hint=max(1, versions - behind) if hinted else None)

    for newest in range(versions, versions + more + 1):
        _put(folder, spelling.format(newest))
        assert tables.metadata_file(str(folder), storage) == f"{folder}/metadata/{spelling.format(newest)}"


@pytest.mark.parametrize("hint", ["", "x", "99", "3" * 100, "00001-abc"])
def test_a_hint_that_names_nothing_is_no_hint(asker: Any, folder: Path, hint: str) -> None:
    """The folder itself is listed then, in the order of numbers: 10 comes after 9."""
    _put(folder, "v9.metadata.json", "v10.metadata.json", "v2.metadata.json", "snap-1.avro", hint=hint)

    assert asker.at(str(folder)).endswith("/v10.metadata.json")


def test_a_table_that_was_made_anew_begins_anew(asker: Any, folder: Path) -> None:
    """Nothing known of the dropped table counts for the new one."""
    _put(folder, *(f"v{n}.metadata.json" for n in range(1, 6)), hint=2)
    assert asker.at(str(folder)).endswith("/v5.metadata.json")
    for file in (folder / "metadata").iterdir():
        file.unlink()
    _put(folder, "v1.metadata.json", "v2.metadata.json", hint=2)

    assert asker.at(str(folder)).endswith("/v2.metadata.json")


def test_a_folder_without_a_table_is_none(asker: Any, folder: Path) -> None:
    """There are two kinds: an empty place, and a table that only a catalog can resolve."""
    with pytest.raises(PermanentError, match="it has no folder metadata"):
        asker.at(f"{folder}/nothing")
    _put(folder, "00003-0b9d5ef5-53f5-4c7b-b0de-2c5bbb9e5b3b.metadata.json")
    with pytest.raises(PermanentError, match="register it as catalog://"):
        asker.at(str(folder))


def test_a_dropped_table_is_missing(asker: Any, folder: Path) -> None:
    """An earlier observation does not prove that it is still there."""
    _put(folder, "v1.metadata.json", hint=1)
    asker.at(str(folder))
    for file in (folder / "metadata").iterdir():
        file.unlink()

    with pytest.raises(PermanentError, match="there is no Iceberg table"):
        asker.at(str(folder))


def test_a_catalog_is_a_folder_of_such_folders(asker: Any, folder: Path) -> None:
    """Its tables are known by their names, and listed. A folder without metadata is a namespace."""
    _put(folder, "v1.metadata.json", hint=1)
    returns = folder.parent / "eu/returns"
    (returns / "metadata").mkdir(parents=True)
    _put(returns, "v4.metadata.json", hint=4)
    settings = {"type": "hadoop", "warehouse": f"file://{folder.parent.parent}"}

    assert asker.tables(settings) == ["sales.eu.returns", "sales.orders"]
    assert asker.where(settings, "sales.eu.returns") == f"{returns}/metadata/v4.metadata.json"
