"""Which storage holds a location, and which locations are allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import Storages, canonical_location

NAMED = "catalog://lake/sales.orders"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a root with a file, beside a folder with a similar name."""
    for folder in ("lake", "lake2"):
        (tmp_path / folder / "t").mkdir(parents=True)
        (tmp_path / folder / "t" / "file").write_text(folder)
    (tmp_path / "lake" / "out").symlink_to(tmp_path / "lake2")
    (tmp_path / "lake" / "in").symlink_to(tmp_path / "lake" / "t")
    return Path(canonical_location(str(tmp_path / "lake")))


def test_a_file_below_a_root_is_read(lake: Path) -> None:
    """By its path, through a link that stays below, and as a file of a table in a catalog."""
    storages = Storages(roots=[str(lake), "s3://bucket/lake"])
    for path in ("t/file", "in/file"):
        assert storages.of(f"{lake}/{path}").read(f"{lake}/t/file") == b"lake"
        assert storages.of(NAMED).read(f"{lake}/{path}") == b"lake"


@pytest.mark.parametrize(
    "elsewhere", ["{lake}2/t", "{lake}/out/t", "{lake}/../lake2/t", "/etc", "s3://bucket/lake2", "s3://other/lake"]
)
def test_nothing_outside_of_the_roots_is_asked_for(lake: Path, elsewhere: str) -> None:
    """Neither a table nor a file that a catalog or the metadata of a table names. No store is reached."""
    location = elsewhere.format(lake=lake)
    storages = Storages(roots=[str(lake), "s3://bucket/lake"])
    with pytest.raises(PermanentError, match="lies outside of the roots"):
        storages.of(location)
    scattered = storages.of(NAMED)
    for ask in (
        lambda: scattered.read(f"{location}/file"),
        lambda: scattered.read_part(f"{location}/file", begin=0, size=1),
        lambda: scattered.listing(location),
        lambda: scattered.stamp(location),
        lambda: scattered.version(f"{location}/file"),
        lambda: scattered.present(location, ["file"]),
        lambda: [*scattered.entries(location)],
    ):
        with pytest.raises(PermanentError, match="lies outside of the roots"):
            ask()


def test_without_roots_every_place_is_allowed(lake: Path) -> None:
    """As the default is."""
    assert Storages().of(f"{lake}2/t").read(f"{lake}2/t/file") == b"lake2"
