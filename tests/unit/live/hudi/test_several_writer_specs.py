"""The writers: real releases that can write the table's version, and some that conflict with each other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.service.config.loading import load
from live.hudi.policies import policies_of_several
from live.hudi.several.writer_specs import VERSIONS, second_opinion, writer_specs
from tests.support.hudi.hudi_bundles import HUDI_BUNDLES


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writers", [2, 3, 4])
def test_every_table_is_written_by_more_than_one_release_that_knows_its_version(version: int, writers: int) -> None:
    """Each writer has keys of its own. The last reader is another release than ours."""
    parts = writer_specs(writers, table_version=version, conflicts=False)

    assert len({part.shop for part in parts}) == writers
    assert len({part.release for part in parts}) > 1
    assert {part.release for part in parts} <= HUDI_BUNDLES.keys()
    assert version < 9 or "1.0.2" not in {part.release for part in parts}
    assert second_opinion(version) != "1.2.0"


def test_where_there_are_to_be_conflicts_one_packs_what_another_changes() -> None:
    """Not all of them pack: small files must remain for clustering."""
    assert [part.packs for part in writer_specs(3, table_version=9, conflicts=True)] == [False, True, False]
    assert not any(part.packs for part in writer_specs(3, table_version=9, conflicts=False))


@pytest.mark.parametrize("kind", TableType)
def test_the_policies_beside_several_writers_are_a_valid_configuration(tmp_path: Path, kind: TableType) -> None:
    """All services have one, except those without a meaning for the table's type."""
    table = {"id": "orders", "format": "hudi", "path": str(tmp_path), "services": policies_of_several(kind, 3)}
    (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump({"tables": [table]}))

    load(tmp_path / "lakewarden.yaml")

    assert ("compaction" in policies_of_several(kind, 3)) is (kind is TableType.MOR)
