"""The tutorials of a first table, command by command as their pages have them, on a table with a live writer."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakewarden.demo.daemon import free_port
from lakewarden.executors.worker import bundles
from tests.support.catalogs.iceberg_rest import iceberg_rest
from tests.support.object_stores.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.object_stores.s3_server import S3Server

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[3] / "docs"


class Reader:
    """A reader of a tutorial, in a folder. What is theirs stands in the place of the names on the page."""

    def __init__(self, page: str, folder: Path, theirs: dict[str, str]) -> None:
        self.folder, self.ports = folder, (free_port(), free_port())
        text = (DOCS / page).read_text(encoding="utf-8")
        for name, own in theirs.items():
            assert name in text, f"the page does not name {name} any more"
            text = text.replace(name, own)
        self.commands = re.findall(r"^lakewarden (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
        [self.configuration] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        self.serving: subprocess.Popen[bytes] | None = None

    def write(self, *, mode: str) -> None:
        """Write the configuration of the page, in a mode, with free ports."""
        api, management = self.ports
        more = f"api: {{port: {api}}}\nmanagement: {{port: {management}}}\n"
        [line] = re.findall(r"^defaults: .*$", self.configuration, re.MULTILINE)
        text = self.configuration.replace(line, line.replace("mode: plan", f"mode: {mode}"))
        assert f"mode: {mode}" in text
        (self.folder / "lakewarden.yaml").write_text(text + more)

    def next(self) -> str:
        """Carry out the next command of the page. Returns what it prints."""
        return self._run(self.commands.pop(0).split())

    def again(self, command: str) -> str:
        """Carry out a command of the page once more."""
        return self._run(command.split())

    def _run(self, words: list[str]) -> str:
        command = [sys.executable, "-m", "lakewarden.cli", *words]
        environment = {**os.environ, "LAKEWARDEN_URL": f"http://127.0.0.1:{self.ports[0]}"}
        if words[0] == "serve":
            log = (self.folder / "serve.log").open("wb")
            self.serving = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)
            return ""
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def stop(self) -> None:
        """End the daemon."""
        if self.serving is not None:
            self.serving.send_signal(signal.SIGTERM)
            self.serving.wait(300)


def test_a_reader_of_the_first_hudi_table_has_it_compacted(orders: Orders, tmp_path: Path) -> None:
    """Each command ends well and says what the page says. The writer pastes what it is told to."""
    lock = orders.lock
    theirs = {
        "/data/lake/orders": str(orders.path),
        "zk1:2181": lock["url"],
        "/hudi/locks": lock["base_path"],
        "lock_key: orders": f"lock_key: {lock['lock_key']}",
    }
    (folder := tmp_path / "reader").mkdir()
    reader = Reader("tutorial_hudi.md", folder, theirs)

    explained = reader.next()
    assert "MERGE_ON_READ version 9" in explained
    assert "no lock" in explained, explained
    reader.write(mode="plan")
    reader.next()  # check-config
    reader.next()  # serve
    try:
        eventually(lambda: b"serving" in (folder / "serve.log").read_bytes())
        pasted = dict(line.split("=", 1) for line in reader.next().splitlines() if line.startswith("hoodie."))
        assert pasted["hoodie.write.lock.zookeeper.lock_key"] == lock["lock_key"]
        writer = dataclasses.replace(orders, conf=pasted)
        for _ in range(3):
            writer.write()

        explain = reader.commands[0]
        explained = reader.next()
        while "proved, 3 commits of writers were seen under it" not in explained:  # one may have been too short to see
            writer.write()
            explained = reader.again(explain)
        assert "DUE, NOT RUN" in explained, explained

        reader.write(mode="act")
        reader.next()  # reload
        reader.next()  # runs --active
        assert "sales.orders" in reader.next(), "tables"
        for _ in range(3):
            writer.write()
        eventually(lambda: orders.timeline("*.commit") != [])
        assert orders.found() == writer.expected
    finally:
        reader.stop()


def test_a_reader_of_the_first_iceberg_table_has_it_compacted(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command ends well and says what the page says. The writer goes on while the daemon acts."""
    bundles.fetch(["iceberg"], needs=["aws"])
    s3_server.start()
    monkeypatch.setenv("LAKE_ACCESS_KEY", ACCESS_KEY)
    monkeypatch.setenv("LAKE_SECRET_KEY", SECRET_KEY)
    files = {
        "s3.endpoint": s3_server.endpoint,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "warehouse": f"s3://{BUCKET}/{tmp_path.name}",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }
    (folder := tmp_path / "reader").mkdir()
    with iceberg_rest(tmp_path, files=files) as rest:
        table = rest.catalog.create_table("sales.orders", pa.schema([("id", pa.int64())]))
        for number in range(12):
            table.append(pa.table({"id": [number]}))
        store = f'region: us-east-1, endpoint: "{s3_server.endpoint}", path_style: true'
        reader = Reader("tutorial_iceberg.md", folder, {"http://catalog:8181": rest.uri, "region: eu-central-1": store})
        reader.write(mode="plan")
        reader.next()  # check-config
        reader.next()  # doctor
        reader.next()  # serve
        try:
            eventually(lambda: b"serving" in (folder / "serve.log").read_bytes())
            explain = reader.commands[0]
            eventually(lambda: "DUE, NOT RUN" in reader.again(explain))
            assert "a run now" in reader.next()
            reader.next()  # writer-options

            reader.write(mode="act")
            reader.next()  # reload
            reader.next()  # runs --active
            assert "sales.orders" in reader.next(), "tables"
            table.append(pa.table({"id": [12]}))
            eventually(lambda: len(table.refresh().inspect.data_files()) < 12)
            assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(13))
        finally:
            reader.stop()
