"""What the newest cleans kept is read of tables that can be read. A store that is away ends the reading."""

from __future__ import annotations

from pathlib import Path

from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.commands.report import kept_by_cleans
from tests.support.hudi.hudi_look import made


def _table(location: str) -> Table:
    return Table(id=TableId(location), format="hudi", location=location)


def test_a_table_that_cannot_be_read_affects_no_other(tmp_path: Path) -> None:
    """It says nothing, and the daemon asks before its first clean."""
    table = made(tmp_path / "good")
    times = [table.write({"p0": []}) for _ in range(30)]
    table.complete_clean(table.plan_clean(), seen=times[-1], retained=times[-24])
    (tmp_path / "none").mkdir()
    good = str(table.folder)
    iceberg = Table(id=TableId("a"), format="iceberg", location="catalog://lake/a.b")  # its properties have a policy
    assert kept_by_cleans([_table(str(tmp_path / "none")), _table(good), iceberg]) == {good: 24}

    # After many of them none is read any more. The first ones are read at the same time.
    gone = [_table(str(tmp_path / f"none-{number}")) for number in range(40)]
    assert kept_by_cleans([*gone, _table(good)]) == {}
