"""Pages of archived timelines come from processes of their own."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.model.errors import TemporaryError, UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import NoArchiveError
from lakewarden.service.state.readers.archives import ArchiveReaders

ARCHIVES = Path(__file__).parents[4] / "fixtures" / "hudi" / "archives"
TABLE = Table(id=TableId("orders"), format="hudi", location=str(ARCHIVES / "mor_v9"), options=HUDI.table_options())


def test_a_page_is_read_in_another_process() -> None:
    """The process that serves decodes no file of a table."""
    page = ArchiveReaders(roots=[str(ARCHIVES)]).page(TABLE, before=None, limit=4)

    assert [one.time for one in page.instants][:1] == ["20261123194043670"]
    assert len(page.instants) == 4
    assert page.before == page.instants[-1].requested_at


def test_a_format_without_an_archive_says_so() -> None:
    """It is no failure of the table."""
    table = Table(id=TableId("plain"), format="directory", location=str(ARCHIVES))

    with pytest.raises(NoArchiveError, match="a directory table has no archived timeline"):
        ArchiveReaders(roots=[str(ARCHIVES)]).page(table, before=None, limit=4)


def test_a_process_that_does_not_answer_is_given_up() -> None:
    """The caller waits for a bounded time."""
    readers = ArchiveReaders(
        command=(sys.executable, "-c", "import time; time.sleep(600)"), timeout=timedelta(seconds=0.2)
    )

    with pytest.raises(TemporaryError, match="was not read within"):
        readers.page(TABLE, before=None, limit=4)


def test_a_process_that_ends_fails_one_page() -> None:
    """A damaged file may end the process that reads it."""
    with pytest.raises((UnknownError, TemporaryError)):
        ArchiveReaders(command=(sys.executable, "-c", "")).page(TABLE, before=None, limit=4)
