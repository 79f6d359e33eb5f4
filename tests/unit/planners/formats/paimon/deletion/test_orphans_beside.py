"""What a run of orphans remembers beside the table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.deletion.orphans_beside import (
    LastRun,
    content_of,
    file_of,
    last_run,
    seen_file_of,
    stamp_of,
)
from lakewarden.planners.storage import LocalStorage
from tests.support.values import NOW

STORAGE = LocalStorage()
LAST = LastRun(created="5", at=NOW, waiting=3, waits_until=NOW + timedelta(days=1))


def write(folder: Path, content: bytes) -> None:
    file = Path(file_of(str(folder)))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)


@pytest.mark.parametrize("last", [LAST, LastRun(created="5", at=NOW)])
def test_what_is_written_down_is_read_again(tmp_path: Path, last: LastRun) -> None:
    """To the millisecond."""
    write(tmp_path, content_of(last))
    assert last_run(str(tmp_path), STORAGE, created="5") == last


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", content_of(LAST)[:-3], content_of(LAST).replace(b'"waiting": 3', b'"waiting": -3')],
)
def test_a_damaged_file_tells_of_no_run(tmp_path: Path, content: bytes) -> None:
    """Then the service is due, as if it never ran."""
    write(tmp_path, content)
    assert last_run(str(tmp_path), STORAGE, created="5") is None


def test_the_run_of_a_table_that_was_made_again_does_not_count(tmp_path: Path) -> None:
    """Its folder is the same."""
    write(tmp_path, content_of(LAST))
    assert last_run(str(tmp_path), STORAGE, created="6") is None


def test_each_run_changes_the_stamp(tmp_path: Path) -> None:
    """So the table is looked at again although nobody has committed."""
    stamps = [stamp_of(str(tmp_path), STORAGE)]
    for waiting in (1, 22):
        write(tmp_path, content_of(LastRun(created="5", at=NOW, waiting=waiting)))
        stamps.append(stamp_of(str(tmp_path), STORAGE))
    assert len(set(stamps)) == 3
    assert Path(seen_file_of(str(tmp_path))).parent == Path(file_of(str(tmp_path))).parent
