"""What a daemon keeps of its configuration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakewarden.planners.registry import FORMATS
from lakewarden.service.wiring.serving import configured

TABLES = """
daemon: {data_dir: data}
tables:
  - {id: a, format: hudi, path: /lake/a, services: {clean: {trigger: {num_commits: 3}}}, labels: {domain: sales}}
  - {id: b, format: hudi, path: /lake/b, services: {clean: {trigger: {num_commits: 3}}}, labels: {domain: sales}}
"""


def test_a_daemon_keeps_each_table_once(tmp_path: Path) -> None:
    """As a table, with the policies that it shares with others. The settings in the file are kept to be shown alone."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(TABLES)

    config, shown, _ = configured(file, FORMATS)

    first, second = config.tables
    assert config.settings.tables == ()
    assert [(table["id"], table["labels"]) for table in shown.values()["tables"]] == [
        ("a", {"domain": "sales"}),
        ("b", {"domain": "sales"}),
    ]
    assert first.policies is second.policies
    assert (first.options is second.options, first.labels is second.labels) == (True, True)


@pytest.mark.long
def test_a_daemon_loads_no_extra_that_it_was_not_asked_for() -> None:
    """Cryptography needs 9 MiB, and tokens of issuers and service accounts need it alone. OpenTelemetry is optional."""
    code = "import sys, lakewarden.service.wiring.serving; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"jwt", "cryptography", "opentelemetry.sdk", "google.protobuf"} & set(loaded.stdout.split())
