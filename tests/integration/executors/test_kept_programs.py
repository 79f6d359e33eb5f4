"""The programs that have found a fault, shrunk by `./dev fuzz rows`: each runs through without one now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fuzz.rows.command import rows_format
from fuzz.rows.program import Program
from fuzz.rows.running import Tally, run_program

if TYPE_CHECKING:
    from lakewarden.executors.worker.session import Session

pytestmark = pytest.mark.spark

KEPT = sorted((Path(__file__).parents[2] / "fixtures" / "rows").glob("*.json"))
# A run that is refused with its reason is the right end of these; elsewhere it would hide what the program once found.
REFUSED = {"iceberg-clustering-by-a-dropped-column"}


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.stem)
def test_a_program_that_found_a_fault_finds_none(kept: Path, writers_session: Session, tmp_path: Path) -> None:
    program, tally = Program.from_json(kept.read_text(encoding="utf-8")), Tally()
    assert run_program(program, rows_format(program.format), tmp_path, writers_session, tally) is None
    assert not tally.unread
    assert any(ends["refused"] for ends in tally.acts.values()) is (kept.stem in REFUSED)
