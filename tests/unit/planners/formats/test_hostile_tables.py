"""Every hostile table is observed by its format. The result is a view with faults or an error of ours, quickly and
cheaply.
"""

from __future__ import annotations

import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.format import THOROUGH
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hostile.hostile_table import Looks, Scale
from tests.support.hostile.hostile_tables import make_corpus, whole_corpus

SCALE = Scale(entries=500, lines=20_000, inflated=2**29, levels=20_000, metadata=16 * 2**20)
NAMES = [one.name for one in whole_corpus()]
MOVED = ("manifest_list_of_another",)
"""A moved table has its older files in the old place. They are read, and never deleted."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_table_costs_its_reader_little_and_ends_with_a_word(tmp_path: Path, name: str) -> None:
    """Nothing hangs, crashes or grows, and only our own errors leave the format."""
    (one,) = make_corpus(tmp_path, scale=SCALE, only=[name])
    services = {Service.COMPACTION: Policy(trigger=NumCommits(at_least=3), options=CompactionOptions())}
    table = Table(
        id=TableId(name),
        format=one.format,
        location=str(tmp_path / "tables" / name),
        policies=services if one.format == "iceberg" else {},
    )
    format_ = ICEBERG if one.format == "iceberg" else THOROUGH
    tracemalloc.start()
    begun = time.process_time()
    try:
        view = format_.observe(table, storage_for(table.location), None, now=datetime.now(UTC)).view
        said = (*view.faults, *(one.reason for one in view.blockers))
    except LakewardenError as error:
        said = (str(error),)
    finally:
        took, memory = time.process_time() - begun, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert took < 60
    assert memory < 128 * 2**20
    assert said or one.looks is not Looks.FAILING or name in MOVED
