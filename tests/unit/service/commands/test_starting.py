"""The first steps with a lake: its tables are found, a first file is written, and what it names is tried."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.cli import main
from lakewarden.cli.exit_codes import Code
from lakewarden.demo.daemon import free_port
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.service.commands.init import first_file
from lakewarden.service.config.layers.templates import path_hash
from lakewarden.service.config.loading import load
from tests.support.hudi.hudi_look import made

FIXTURES = Path(__file__).parents[3] / "fixtures"
ZOOKEEPER = """
hoodie.write.lock.provider org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider
hoodie.write.lock.zookeeper.url=127.0.0.1:9
hoodie.write.lock.zookeeper.base_path   /hudi
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a folder with tables of two formats."""
    for kind, names in {"hudi": ("mor_v6", "cow_v9"), "paimon": ("spark_keyed",)}.items():
        for name in names:
            with zipfile.ZipFile(FIXTURES / kind / f"{name}.zip") as archive:
                archive.extractall(tmp_path / kind / name)
    return tmp_path


def test_a_first_file_has_no_problem_and_only_observes(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It means all tables of the path, by few lines, and names the lock of the writers' defaults."""
    defaults = lake / "hudi-defaults.conf"
    defaults.write_text(ZOOKEEPER)
    file = lake / "lakewarden.yaml"
    assert main(["init", str(lake), "--writer-defaults", str(defaults), "--output", str(file)]) == Code.DONE
    assert main(["check-config", str(file)]) == Code.DONE
    assert "no problem" in capsys.readouterr().out

    config = load(file)
    assert len(file.read_text().splitlines()) < 15
    assert {table.mode for table in config.tables} == {Mode.OBSERVE}
    (pattern,) = config.discover
    found = pattern.table("mor_v6", location=str(lake / "hudi" / "mor_v6"))
    assert found.options.lock.lock_key == "mor_v6"


@pytest.mark.parametrize(
    ("provider", "rest", "lock"),
    [
        (
            "client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider",
            "hoodie.write.lock.zookeeper.url zk:2181",
            {"provider": "zookeeper", "base_path": "/tmp/{hash}", "lock_key": "lock_key"},
        ),
        (
            "aws.transaction.lock.DynamoDBBasedImplicitPartitionKeyLockProvider",
            "hoodie.write.lock.dynamodb.table locks",
            {"provider": "dynamodb", "table": "locks", "partition_key": "{hash}", "region": "us-east-1"},
        ),
    ],
)
def test_a_lock_that_follows_from_the_path_is_that_of_each_table(
    lake: Path, provider: str, rest: str, lock: dict[str, str]
) -> None:
    """The providers of Hudi that need no key name the lock by a hash of the path. One line means that of each table."""
    defaults = lake / "hudi-defaults.conf"
    defaults.write_text(f"hoodie.write.lock.provider org.apache.hudi.{provider}\n{rest}\n")
    file = lake / "lakewarden.yaml"
    assert main(["init", f"{lake}/hudi", "--writer-defaults", str(defaults), "--output", str(file)]) == Code.DONE
    (pattern,) = load(file).discover
    place = str(lake / "hudi" / "mor_v6")
    found = pattern.table("mor_v6", location=place).options.lock.model_dump()
    wanted = {key: value.format(hash=path_hash(place)) for key, value in lock.items()}
    assert found.items() >= wanted.items()


def test_a_first_file_keeps_what_the_newest_clean_kept(tmp_path: Path) -> None:
    """A table whose cleans keep more than Hudi's default has an entry of its own. The others have the default."""
    _cleaned(tmp_path / "lake" / "long", kept=24)
    _cleaned(tmp_path / "lake" / "short", kept=5)
    file = tmp_path / "lakewarden.yaml"
    assert main(["init", str(tmp_path / "lake"), "--output", str(file)]) == Code.DONE
    (table,) = load(file).tables
    assert table.location == str(tmp_path / "lake" / "long" / "trips")
    assert table.policies[Service.CLEAN].options.commits_retained == 24
    assert table.policies[Service.ARCHIVE].options.keep_min_commits == 34
    assert table.mode is Mode.OBSERVE
    (pattern,) = load(file).discover
    short = pattern.table("trips", location=str(tmp_path / "lake" / "short" / "trips"))
    assert short.policies[Service.CLEAN].options.commits_retained is None


def test_many_tables_that_kept_more_have_one_policy(tmp_path: Path) -> None:
    """It keeps as much as the table that kept the most, so none keeps less than before."""
    place = str(tmp_path)
    tables = [Table(id=TableId(f"{place}/t{n}"), format="hudi", location=f"{place}/t{n}") for n in range(30)]
    kept = {one.location: 20 + number for number, one in enumerate(tables)}
    file = tmp_path / "lakewarden.yaml"
    file.write_text(first_file({place: tables}, {}, kept=kept))
    config = load(file)
    assert not config.tables
    (pattern,) = config.discover
    assert pattern.any_table.policies[Service.CLEAN].options.commits_retained == 49


def _cleaned(folder: Path, *, kept: int) -> None:
    """Make a table of 30 commits with a clean that kept the newest of them."""
    folder.mkdir(parents=True)
    table = made(folder, version=9)
    times = [table.write({"p0": []}) for _ in range(30)]
    table.complete_clean(table.plan_clean(), seen=times[-1], retained=times[-kept])


def test_a_file_that_is_there_is_not_replaced(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused by name."""
    file = lake / "lakewarden.yaml"
    file.write_text("tables: []\n")
    assert main(["init", str(lake), "--output", str(file)]) == Code.USAGE
    assert "already exists" in capsys.readouterr().err
    assert file.read_text() == "tables: []\n"


def test_a_first_file_of_a_catalog_names_the_catalog(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A catalog in a database is asked without a configuration, and the file that is written finds its table."""
    database = _catalog_in(tmp_path / "catalog.db")
    place = f"jdbc:sqlite:{database}?warehouse={tmp_path}&name=lake"
    file = tmp_path / "lakewarden.yaml"
    assert main(["init", place, "--output", str(file)]) == Code.DONE, capsys.readouterr().err
    assert main(["check-config", str(file)]) == Code.DONE, capsys.readouterr().out
    assert [one.pattern.match for one in load(file).discover] == ["catalog://lake/*"]


def test_a_table_that_only_its_catalog_can_open_is_a_comment(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An entry with its path would not work. If there is no other table, no file is written."""
    catalog = SqlCatalog("prod", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", pa.schema([("id", pa.int64())]))
    assert main(["init", f"{lake}/warehouse", f"{lake}/hudi"]) == Code.DONE
    *_, reason, _, left_out = capsys.readouterr().out.splitlines()
    assert "only its catalog knows" in reason
    assert left_out == f"#   {lake}/warehouse/sales/orders"
    assert main(["init", f"{lake}/warehouse"]) == Code.USAGE
    assert "Give `lakewarden init` the address of the catalog" in capsys.readouterr().err


def test_a_catalog_that_does_not_answer_is_not_an_empty_lake(capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is said once, although the catalog is asked for the tables of several formats."""
    place = f"thrift://127.0.0.1:{free_port()}"
    assert main(["init", place]) != Code.DONE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("does not answer") == 1
    assert "no table found at" not in said.err


def test_one_file_is_written_for_paths_and_catalogs(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lake with tables in folders and in two catalogs needs one command. Two catalogs have two names."""
    one, two = (f"jdbc:sqlite:{_catalog_in(lake / f'{number}.db')}?warehouse={lake}" for number in (1, 2))
    file = lake / "lakewarden.yaml"
    assert main(["init", f"{lake}/hudi", f"{one}&name=lake", f"{two}&name=lake"]) == Code.USAGE
    assert "two catalogs have the same name" in capsys.readouterr().err
    assert main(["init", f"{lake}/hudi", f"{one}&name=lake", "--output", str(file)]) == Code.DONE
    assert main(["check-config", str(file)]) == Code.DONE, capsys.readouterr().out
    assert [one.pattern.match for one in load(file).discover] == [f"{lake}/hudi/*/", "catalog://lake/*"]


def test_a_catalog_without_a_name_gets_a_free_one() -> None:
    """A REST catalog says none, and the name of a catalog in a database is fixed."""
    table = Table(id=TableId("sales.orders"), format="iceberg", location="catalog://_/sales.orders")
    text = first_file({"http://one:8181": [table], "jdbc:sqlite:two.db?name=lake": [table]}, {})
    written = yaml.safe_load(text)
    assert {name: one["type"] for name, one in written["catalogs"].items()} == {"lake2": "rest", "lake": "jdbc"}
    assert [one["match"] for one in written["tables"]] == ["catalog://lake2/*", "catalog://lake/*"]


def test_what_a_configuration_names_is_tried(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lock that nobody answers for is named with its remedy, and the exit code is 1."""
    lock = {"provider": "zookeeper", "url": "127.0.0.1:9", "base_path": "/hudi", "lock_key": "{table}"}
    file = lake / "lakewarden.yaml"
    entry = {"match": f"{lake}/hudi/*/", "mode": "plan", "options": {"lock": lock}, "services": {"clean": None}}
    file.write_text(yaml.safe_dump({"tables": [entry]}))
    assert main(["doctor", "--config", str(file), "--json"]) == Code.NO
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert found[f"pattern {lake}/hudi/*/"]["result"] == "ok"
    assert found["lock 127.0.0.1:9"]["result"] == "wrong"
    assert found["lock 127.0.0.1:9"]["cure"]


def test_the_format_of_a_table_is_what_its_files_tell(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An entry needs only a path. A folder that is no table is named."""
    file = lake / "lakewarden.yaml"
    file.write_text(
        yaml.safe_dump({"tables": [{"path": f"{lake}/hudi/mor_v6"}, {"path": f"{lake}/paimon/spark_keyed"}]})
    )
    assert [table.format for table in load(file).tables] == ["hudi", "paimon"]
    file.write_text(yaml.safe_dump({"tables": [{"path": f"{lake}/nothing"}]}))
    assert main(["check-config", str(file)]) == Code.USAGE
    assert "tables[0].format: is missing, and nothing at the path tells it" in capsys.readouterr().out


def test_the_format_of_a_table_in_a_catalog_is_that_of_the_catalog(tmp_path: Path) -> None:
    """So is that of a pattern of paths, which one format alone has."""
    file = tmp_path / "lakewarden.yaml"
    catalogs = {"lake": {"format": "iceberg", "type": "hadoop", "warehouse": str(tmp_path)}}
    tables = [{"path": "catalog://lake/sales.orders"}, {"match": f"{tmp_path}/streams/*/"}]
    file.write_text(yaml.safe_dump({"catalogs": catalogs, "tables": tables}))
    config = load(file)
    assert [table.format for table in config.tables] == ["iceberg"]
    assert [one.any_table.format for one in config.discover] == ["hudi"]


def _catalog_in(database: Path) -> Path:
    """Make an Iceberg catalog of the name `lake` with one table."""
    with sqlite3.connect(database) as made:
        made.execute(
            "CREATE TABLE iceberg_tables (catalog_name TEXT, table_namespace TEXT, table_name TEXT, "
            "metadata_location TEXT, previous_metadata_location TEXT, iceberg_type TEXT)"
        )
        made.execute(
            "INSERT INTO iceberg_tables VALUES ('lake', 'sales', 'orders', '/x/metadata/v1.metadata.json', NULL, NULL)"
        )
    return database
