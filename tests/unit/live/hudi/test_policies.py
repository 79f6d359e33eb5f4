"""The suite has a policy for every supported service with work on the table, as a configuration takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.loading import load
from live.hudi.policies import WriterKind, inline_options, policies

SHOWN = [*Service]


@pytest.mark.parametrize("kind", TableType)
@pytest.mark.parametrize("writer", WriterKind)
def test_the_policies_are_a_valid_configuration(tmp_path: Path, kind: TableType, writer: WriterKind) -> None:
    """They are for the services that the format supports now."""
    services = policies(kind, writer, FORMATS["hudi"].services)
    table = {"id": "orders", "format": "hudi", "path": str(tmp_path), "services": services}
    (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump({"tables": [table]}))

    load(tmp_path / "lakewarden.yaml")


def test_log_files_are_merged_only_where_there_are_any() -> None:
    """Compaction and log compaction have no meaning on a copy-on-write table."""
    of_mor = policies(TableType.MOR, WriterKind.UPSERT, SHOWN).keys()
    of_cow = policies(TableType.COW, WriterKind.UPSERT, SHOWN).keys()

    assert of_mor - of_cow == {"compaction", "log_compaction"}
    assert of_cow >= {"clustering", "clean", "archive", "rollback"}


def test_what_the_format_does_not_support_is_not_asked_for() -> None:
    """The suite grows with the format."""
    assert policies(TableType.MOR, WriterKind.UPSERT, [Service.CLEAN]).keys() == {"clean"}


def test_an_inline_writer_schedules_compaction_alone() -> None:
    """Its compactions are adopted soon, and it is told when to plan them. Its own clusterings would conflict with its
    writes.
    """
    services = policies(TableType.MOR, WriterKind.INLINE, SHOWN)

    assert {name for name, policy in services.items() if policy.get("schedule") == "writer"} == {"compaction"}
    assert inline_options(services).keys() == {"hoodie.compact.inline.max.delta.commits"}
    assert inline_options(["clean"]) == {}
