"""What a daemon keeps of its configuration."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.registry import FORMATS
from lakewarden.service.wiring.serving import ConfigurationWatch, SeenFile, configured, watched

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
    """Cryptography needs 9 MiB, and tokens of issuers and service accounts need it alone. The others are extras, and a
    daemon starts without them.
    """
    code = "import sys, lakewarden.service.wiring.serving; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"jwt", "cryptography", "opentelemetry.sdk", "google.protobuf"}
    extras = {"hive_metastore", "thrift", "obstore", "psycopg", "pyiceberg", "botocore", "hudi"}
    assert not (heavy | extras) & set(loaded.stdout.split())


# A configuration file that changes without a signal, such as a ConfigMap that is mounted in a pod.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file as Kubernetes mounts one: a link to a link to a folder that is replaced as a whole."""
    _mounted(tmp_path, "poll: 10s")
    (tmp_path / "lakewarden.yaml").symlink_to("..data/lakewarden.yaml")
    return tmp_path / "lakewarden.yaml"


def _mounted(folder: Path, content: str) -> None:
    made = folder / f"..{content.replace(' ', '')}"
    made.mkdir(exist_ok=True)
    (made / "lakewarden.yaml").write_text(content)
    (folder / "new").symlink_to(made.name)
    (folder / "new").replace(folder / "..data")


class Read(list[str]):
    """The contents that were read again."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def __call__(self) -> None:
        self.append(self._file.read_text())


def test_a_changed_file_is_read_again_once_it_rests(file: Path) -> None:
    """One that changes between two looks may be half written. What was read once is not read again, also if it was
    refused.
    """
    read = Read(file)
    watch = ConfigurationWatch(SeenFile.of(file), reload=read)
    watch.look()
    _mounted(file.parent, "poll: 20s")
    watch.look()
    _mounted(file.parent, "poll: 30s")
    watch.look()
    assert read == []

    for _ in range(5):
        watch.look()
    assert read == ["poll: 30s"]

    _mounted(file.parent, "poll: 10s")
    for _ in range(5):
        watch.look()
    assert read == ["poll: 30s", "poll: 10s"]


def test_a_file_that_is_gone_for_a_moment_changes_nothing(file: Path) -> None:
    """The tables of the last good configuration stay served."""
    read = Read(file)
    watch = ConfigurationWatch(SeenFile.of(file), reload=read)
    file.rename(file.with_name("away"))
    for _ in range(3):
        watch.look()
    file.with_name("away").rename(file)
    for _ in range(3):
        watch.look()

    assert read == []


def test_an_error_of_a_reload_does_not_end_the_watch(file: Path) -> None:
    """The next change is noticed, too. At the end of the block no thread is left."""
    second = threading.Event()
    read = Read(file)

    def reload() -> None:
        read()
        if len(read) == 1:
            _mounted(file.parent, "poll: 30s")
            raise RuntimeError("a reload that fails")
        second.set()

    before = threading.active_count()
    with watched(SeenFile.of(file), reload, every=timedelta(milliseconds=1)):
        _mounted(file.parent, "poll: 20s")
        assert second.wait(30)
    assert read == ["poll: 20s", "poll: 30s"]
    assert threading.active_count() == before


def test_without_a_cadence_it_is_not_looked_at(file: Path) -> None:
    """A daemon on a machine reads its file again on request."""
    before = threading.active_count()
    with watched(SeenFile.of(file), Read(file), every=timedelta(0)):
        assert threading.active_count() == before


def test_a_change_while_the_daemon_starts_is_not_missed(file: Path) -> None:
    """The content counts from before the file was read."""
    read = Read(file)
    seen = SeenFile.of(file)
    _mounted(file.parent, "poll: 20s")
    watch = ConfigurationWatch(seen, reload=read)
    for _ in range(3):
        watch.look()

    assert read == ["poll: 20s"]
