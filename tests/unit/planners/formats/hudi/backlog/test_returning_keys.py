"""What an operator is told of deleted keys that come back during a compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_look import made
from tests.support.hudi.hudi_table import HudiTable, log_file


def _view(table: HudiTable, **options: Any) -> TableView:
    asked = Table(
        id=TableId("trips"),
        format="hudi",
        location=str(table.folder),
        options=HudiTableOptions.model_validate(options),
        policies={Service.COMPACTION: Policy(trigger=NumCommits(at_least=1))},
    )
    return HUDI.observe(asked, storage_for(asked.location), None, now=table.clock.now()).view


def _notes(table: HudiTable, **options: Any) -> str:
    """Return what is noted of a compaction."""
    return " ".join(_view(table, **options).notes.get(Service.COMPACTION, ()))


@pytest.mark.parametrize("writers", ["live", "none"])
def test_only_a_declaration_of_the_index_spares_the_look_for_returned_keys(tmp_path: Path, writers: str) -> None:
    """A writer that is off by day has perhaps brought a key back by night."""
    table = made(tmp_path)
    table.write({"p0": [log_file("f3a1c0de-6a0e-4a1c-9b52-3f8f6e5e6b7a-0", "1")]})

    assert "drops deleted rows" in _notes(table, writers=writers)
    assert _notes(table, writers=writers, returning_keys="trusted") == ""
    assert _notes(table, writers=writers, bucket_index={"engine": "simple"}) == ""


@pytest.mark.parametrize("group", ["00000003-6a0e-4a1c-9b52-3f8f6e5e6b7a-0", "00000003-0000-0000-0000-000000000000-0"])
def test_names_of_buckets_are_told_and_not_trusted(tmp_path: Path, group: str) -> None:
    """A second job without the index looks in base files only."""
    table = made(tmp_path)
    table.write({"p0": [log_file(group, "1")]})

    assert "If all writers have hoodie.index.type=BUCKET, declare the bucket_index" in _notes(table)


def test_a_table_with_deletes_has_a_warning_with_the_query_that_finds_doubled_keys(tmp_path: Path) -> None:
    """Other programs may have compacted it, and no service removes such rows. `inspect` prints warnings, too."""
    table = made(tmp_path)
    group = "f3a1c0de-6a0e-4a1c-9b52-3f8f6e5e6b7a-0"
    table.write({"p0": [log_file(group, "1")]})
    assert not any("delete rows" in one for one in _view(table).warnings)
    table.write({"p0": [log_file(group, "1", deletes=2)]})
    [warning] = (one for one in _view(table).warnings if "delete rows" in one)
    assert "GROUP BY 1, 2 HAVING count(*) > 1" in warning
    assert not any("delete rows" in one for one in _view(table, returning_keys="trusted").warnings)
