"""A first file never has an error, whatever the writers' defaults and the folders of the lake are called."""

from __future__ import annotations

import re
import zipfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.cli import main
from lakewarden.cli.exit_codes import Code
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import Storages
from lakewarden.service.commands.init import first_file, sound_file
from lakewarden.service.config.loading import examine, load
from lakewarden.service.config.problems import Weight
from lakewarden.service.config.settings import TABLE_ID
from lakewarden.service.control.discovery import sources_of

FIXTURES = Path(__file__).parents[3] / "fixtures"
ZOOKEEPER = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
FILE = Path("/none/lakewarden.yaml")

_KEYS = (
    *("zookeeper.url", "zookeeper.port", "zookeeper.base_path", "zookeeper.lock_key", "dynamodb.table"),
    *("dynamodb.region", "hivemetastore.database", "hivemetastore.table", "hivemetastore.uris", "filesystem.path"),
)
_PROVIDERS = (
    *("ZookeeperBasedLockProvider", "ZookeeperBasedImplicitBasePathLockProvider", "InProcessLockProvider", "OfOurOwn"),
    *("StorageBasedLockProvider", "DynamoDBBasedLockProvider", "HiveMetastoreBasedLockProvider"),
    *("FileSystemBasedLockProvider", ""),
)
_SAID = st.sampled_from(
    (
        *("zk1", "zk1:2181", "zk1, zk2:2182", "zk1:2181/root", "/hudi", "hudi/", "2182", "thrift://h:1"),
        *("a b", "", "{nothing}", "ü", "#x: [", "{table}"),
    )
)
_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1)


def _written(properties: str, *tables: str) -> str:
    known = {"hudi": HUDI.options_from(properties.encode())}
    made = [Table(id=TableId("x"), format="hudi", location=one) for one in tables or ("/lake/a", "/lake/b")]
    return sound_file(partial(first_file, {"/lake": made}), known, file=FILE)


def _lock(text: str) -> str | None:
    found = re.search(r"^    options: \{lock: \{(.*?)\}\}", text, re.MULTILINE)
    return None if found is None else found[1]


@given(
    provider=st.sampled_from(_PROVIDERS),
    keys=st.dictionaries(st.sampled_from(_KEYS), _SAID),
    names=st.lists(_NAMES, min_size=1),
)
def test_no_first_file_has_an_error(provider: str, keys: dict[str, str], names: list[str]) -> None:
    """If the defaults of the writers name a provider, the file has its lock, or a comment says why it has none."""
    lines = [f"hoodie.write.lock.provider=org.apache.hudi.{provider}" if provider else ""]
    properties = "\n".join([*lines, *(f"hoodie.write.lock.{key}={value}" for key, value in keys.items())])
    text = _written(properties, *(f"/lake/{name}/t" for name in names if name not in {".", ".."}), "/lake/a")
    found = examine(FILE, to_serve=False, text=text).problems
    assert not [one for one in found if one.weight is Weight.ERROR]
    assert not provider or "lock: {" in text or "\n    # " in text


@pytest.mark.parametrize(
    ("url", "port", "written"),
    [
        ("zk1", None, "zk1:2181"),
        ("zk1", "2181", "zk1:2181"),
        ("zk1, zk2", "2181", "zk1:2181,zk2:2181"),
        ("zk1:2182,zk2", None, "zk1:2182,zk2:2181"),
        ("zk1:2182", "2183", "zk1:2182"),
    ],
)
def test_an_address_of_zookeeper_without_a_port_has_that_of_zookeeper(url: str, port: str | None, written: str) -> None:
    """The client of Hudi takes 2181 for it. It does not read `.port`."""
    said = [f"hoodie.write.lock.provider={ZOOKEEPER}", f"hoodie.write.lock.zookeeper.url={url}"]
    said += [f"hoodie.write.lock.zookeeper.port={port}"] if port else []
    text = _written("\n".join([*said, "hoodie.write.lock.zookeeper.base_path=/hudi"]))
    assert f'url: "{written}"' in (_lock(text) or "")


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ("zookeeper.url=zk1\nhoodie.write.lock.zookeeper.port=2182", "Hudi ignores that key"),
        ("zookeeper.url=zk1:2181/root", "the options of the writers are left out. policies.hudi.options.lock.url"),
        ("zookeeper.port=2181", "without hoodie.write.lock.zookeeper.url"),
        ("provider=org.apache.hudi.client.transaction.lock.InProcessLockProvider", "only clients of one JVM"),
        ("provider=com.example.OurOwn", "OurOwn is not a provider that Lakewarden knows"),
    ],
)
def test_a_lock_that_is_left_out_is_a_comment(properties: str, remark: str) -> None:
    """Nothing that the writers have vanishes without a word."""
    base = f"hoodie.write.lock.provider={ZOOKEEPER}\nhoodie.write.lock.zookeeper.base_path=/hudi\n"
    text = _written(f"{base}hoodie.write.lock.{properties}")
    assert _lock(text) is None
    assert remark in text


def test_a_lock_by_the_name_of_the_table_says_which_name_that_is() -> None:
    """The name of the folder is not always the name that Hudi knows."""
    base = f"hoodie.write.lock.provider={ZOOKEEPER}\nhoodie.write.lock.zookeeper.base_path=/hudi\n"
    base += "hoodie.write.lock.zookeeper.url=zk1:2181\n"
    text = _written(base)
    assert "# {table} is the name of the folder. Hudi takes hoodie.table.name" in text
    assert "# {table}" not in _written(f"{base}hoodie.write.lock.zookeeper.lock_key=x")


def test_tables_with_any_name_are_served_under_a_legal_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are listed, and those that a pattern finds. The id depends on the path alone."""
    for kind, fixture, names in (("hudi", "cow_v9", ("a b", "ü", "plain")), ("paimon", "spark_keyed", ("ü-表",))):
        for name in names:
            with zipfile.ZipFile(FIXTURES / kind / f"{fixture}.zip") as archive:
                archive.extractall(tmp_path / kind / name)
    file = tmp_path / "lakewarden.yaml"
    assert main(["init", str(tmp_path), "--output", str(file)]) == Code.DONE
    assert main(["check-config", str(file)]) == Code.DONE, capsys.readouterr().out
    config = load(file)
    (source,) = sources_of(config.discover, Storages(roots=config.roots))
    for _ in range(2):
        found = source.find()
        assert not found.refused
        tables = [*config.tables, *found.tables]
        assert {Path(one.location).name for one in tables} == {"a b", "ü", "plain", "ü-表"}
        assert all(re.fullmatch(TABLE_ID, one.id) for one in tables)
        assert [one.id for one in tables] == [one.id for one in (*load(file).tables, *source.find().tables)]
        assert len({one.id for one in tables}) == 4
