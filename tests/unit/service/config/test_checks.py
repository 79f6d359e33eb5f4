"""What is wrong with a configuration as a whole: with an error the daemon does not start, with a warning it does."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.model.table import Mode
from lakewarden.service.config.checks import AT_ONCE, Facts, answered, gather, place_of
from lakewarden.service.config.loading import Examination, examine
from lakewarden.service.config.problems import Weight, named


def _examined(folder: Path, text: str, *, to_serve: bool = False) -> Examination:
    file = folder / "lakewarden.yaml"
    file.write_text(text)
    return examine(file, to_serve=to_serve)


def _found(folder: Path, text: str, weight: Weight) -> list[str]:
    """Return the key and the sentence of each problem of a weight."""
    problems = _examined(folder, text).problems
    return [f"{named(one.at)}: {one.sentence}" for one in problems if one.weight is weight]


def _tables(*paths: object) -> str:
    lines = [f"  - {{id: t{number}, format: hudi, path: '{path}'}}" for number, path in enumerate(paths)]
    return "\n".join(["tables:", *lines])


# -- one place, one table


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake/a", "/lake/a/"),
        ("/lake/a", "file:///lake//a"),
        ("/lake/a", "/lake/x/../a"),
        ("s3://lake/a", "s3a://lake/a/"),
        ("s3n://lake/a", "S3://lake//a"),
        ("abfs://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net/a/"),
        ("abfss://c@acc.dfs.core.windows.net/a", "abfss://c@ACC.dfs.core.windows.net/a"),
        ("hdfs://nn.example:8020/a", "hdfs://NN.example/a"),
    ],
)
def test_two_spellings_of_one_place_are_one_table(tmp_path: Path, one: str, other: str) -> None:
    """Two entries would run services on it beside each other, each with leases of its own."""
    (error,) = _found(tmp_path, _tables(one, other), Weight.ERROR)

    assert error.startswith("tables[1].path: the table at ")
    assert error.endswith(" is registered at tables[0].path already")


def test_a_link_to_a_table_is_the_table(tmp_path: Path) -> None:
    """Wherever on the way the link is."""
    (tmp_path / "lake" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake")

    (error,) = _found(tmp_path, _tables(tmp_path / "lake" / "a", tmp_path / "link" / "a"), Weight.ERROR)

    assert error == f"tables[1].path: the table at {tmp_path}/lake/a is registered at tables[0].path already"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake", "/lake/a"),
        ("/lake/a/b/c", "/lake/a"),
        ("s3://b/t", "s3a://b/t/in/it"),
        ("s3://b", "s3://b/t"),
        ("hdfs://nn/a", "hdfs://NN:8020/a/b"),
    ],
)
def test_a_table_inside_of_another_one_is_refused(tmp_path: Path, one: str, other: str) -> None:
    """A search for orphans, or a partition that is deleted as a whole, would take its files for its own."""
    (error,) = _found(tmp_path, _tables(one, other), Weight.ERROR)

    assert "lies inside the table at tables[" in error


def test_tables_beside_each_other_are_no_problem(tmp_path: Path) -> None:
    """One name may begin like another."""
    assert _found(tmp_path, _tables("/lake/a", "/lake/ab", "/lake/b/a", "s3://a", "s3://ab/a"), Weight.ERROR) == []


@pytest.mark.parametrize(
    ("catalogs", "one", "other"),
    [
        ("{w: {format: iceberg, type: hadoop, warehouse: /lake/w/}}", "catalog://w/ns.t", "/lake/w/ns/t"),
        (
            "{w: {format: iceberg, type: hadoop, warehouse: s3a://b/w}, v: {format: iceberg, type: hadoop, warehouse: s3://b/w}}",
            "catalog://w/ns.t",
            "catalog://v/ns.t",
        ),
        (
            "{w: {format: iceberg, type: rest, uri: 'http://c'}, v: {format: iceberg, type: rest, uri: 'http://c/'}}",
            "catalog://w/ns.t",
            "catalog://v/ns.t",
        ),
        (
            "{w: {format: iceberg, type: jdbc, uri: 'jdbc:sqlite:/c', warehouse: /x},"
            " v: {format: iceberg, type: jdbc, uri: 'jdbc:sqlite:/c', warehouse: /x, catalog_name: w}}",
            "catalog://w/ns.t",
            "catalog://v/ns.t",
        ),
    ],
)
def test_one_iceberg_table_under_two_addresses_is_refused(tmp_path: Path, catalogs: str, one: str, other: str) -> None:
    """Its folder and its name in a catalog, or two entries for one catalog: as far as the settings tell."""
    text = f"catalogs: {catalogs}\n" + _tables(one, other).replace("hudi", "iceberg")

    (error,) = _found(tmp_path, text, Weight.ERROR)

    assert error.endswith("is registered at tables[0].path already")


def test_two_names_in_one_database_are_two_catalogs(tmp_path: Path) -> None:
    """Rows are keyed by the catalog's name."""
    one = "{format: iceberg, type: jdbc, uri: 'jdbc:sqlite:/c', warehouse: /x}"
    text = f"catalogs: {{w: {one}, v: {one}}}\n" + _tables("catalog://w/a.b", "catalog://v/a.b")

    assert _found(tmp_path, text.replace("hudi", "iceberg"), Weight.ERROR) == []


# -- keys of ours


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("hoodie.write.lock.provider", "use options.lock instead"),
        ("hoodie.clean.commits.retained", "use services.clean.options.commits_retained instead"),
        ("hoodie.cleaner.policy", "use services.clean.options.policy instead"),
        ("hoodie.write.concurrency.mode", "remove it"),
        ("fs.s3a.endpoint", "belongs to the hadoop properties of a store"),
        ("spark.executor.memory", "belongs to spark.<profile>.conf"),
    ],
)
def test_a_key_that_is_lakewardens_own_is_refused(tmp_path: Path, key: str, instead: str) -> None:
    """It would be overridden without a word: the message names the setting that does the same."""
    text = f"tables: [{{id: a, format: hudi, path: /x, options: {{conf: {{{key}: x}}}}}}]"

    (error,) = _found(tmp_path, text, Weight.ERROR)

    assert error.startswith(f"tables[0].options.conf.{key}: ")
    assert instead in error


@pytest.mark.parametrize(
    ("conf", "problem"),
    [
        ("spark.driver.memory: 4g", "spark.driver.memory is set by Lakewarden itself: use memory"),
        ("spark.scheduler.mode: FIFO", "spark.scheduler.mode is set by Lakewarden itself: remove it"),
        ("fs.s3a.endpoint: x", "'fs.s3a.endpoint' is ignored by Spark"),
        ("spark.driver.extraJavaOptions: -Xmx4g", "spark.driver.extraJavaOptions holds -Xmx, which Spark refuses: use"),
    ],
)
def test_what_spark_would_ignore_or_refuse_is_refused_at_once(tmp_path: Path, conf: str, problem: str) -> None:
    """And not by the first worker that does not come up."""
    (error,) = _found(tmp_path, f"spark: {{default: {{conf: {{{conf}}}}}}}", Weight.ERROR)

    assert error.startswith(f"spark.default.conf: {problem}")


def test_a_catalogs_own_settings_do_not_stand_among_its_properties(tmp_path: Path) -> None:
    """There they would win over them, and secrets would stand in the file."""
    catalog = "{format: iceberg, type: rest, uri: 'http://c', properties: {token: hunter2}}"

    (error,) = _found(tmp_path, f"catalogs: {{c: {catalog}}}", Weight.ERROR)

    assert error == "catalogs.c.properties: token is not a property here: set token beside properties"


_ON_A_CLUSTER = "master: 'spark://m:7077'"
_LATE = "spark.default.conf: its executors go on for 50s without an answer of their driver, longer than daemon.lease: "


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        ("formats: [hudy]", "spark.default.formats[0]: 'hudy' is not a format"),
        ("master: 'local[x'", "spark.default.master"),
        ("master_ui: 'http://m:8080'", "spark.default: master_ui is for a standalone master"),
        (f"{_ON_A_CLUSTER}, master_ui: 'm:8080'", "spark.default.master_ui: 'm:8080' is not an address"),
        (
            f"{_ON_A_CLUSTER}, conf: {{spark.executor.heartbeatInterval: soon}}",
            "spark.default: spark.executor.heartbeat",
        ),
        (f"{_ON_A_CLUSTER}, conf: {{spark.executor.heartbeatInterval: 10s}}", _LATE),
        (f"{_ON_A_CLUSTER}, conf: {{spark.executor.heartbeat.maxFailures: '24'}}", _LATE),
    ],
)
def test_a_profile_that_could_not_start_is_refused(tmp_path: Path, profile: str, problem: str) -> None:
    """With the value that is wrong."""
    (error,) = _found(tmp_path, f"spark: {{default: {{{profile}}}}}", Weight.ERROR)

    assert error.startswith(problem)


# -- warnings


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("tables: []", "tables: is empty: no table is served"),
        ("tables:", "tables: is empty: no table is served"),
        (
            "tables: [{id: a, format: hudi, path: s3://b/a, mode: act, services: {clean: {}}}]",
            "tables[0].options.lock: is missing, and mode is act: nothing runs beside live writers without a lock",
        ),
        (
            "tables: [{id: a, format: hudi, path: s3://b/a, mode: plan, services: {clean: {}}, options: {lock: "
            "{provider: hive, database: d, table: t, uris: 'thrift://m:9083'}}}]",
            "tables[0].options.lock_proof: a hive lock leaves no trace when it is taken",
        ),
        (
            "tables: [{id: a, format: hudi, path: s3://b/a, services: {clustering: {}}, options: {writers: none, "
            "lock: {provider: zookeeper, url: 'z:2181', base_path: /b, lock_key: a}, bucket_index: {engine: simple}}}]",
            "tables[0].services.clustering: files of a simple bucket index must not be clustered: clustering never",
        ),
        (
            "tables: [{id: a, format: hudi, path: s3://b/a, mode: plan}]",
            "tables[0].services: is empty: mode is plan, and nothing will ever run",
        ),
        ("tables: [{id: a, format: hudi, path: /no/where}]", "tables[0].path: there is nothing at /no/where yet"),
        (
            "storage: [{prefix: 's3://b', access_key: {env: NO_SUCH}, secret_key: {env: PATH}}]\n"
            + _tables("s3://b/a"),
            "storage[0].access_key: a secret is missing: the environment variable NO_SUCH is not set, or it is empty; ",
        ),
        (
            "storage: [{prefix: 's3://b'}]\n" + _tables("s3://a/a"),
            "storage[0].prefix: no table lies below s3://b",
        ),
        ("spark: {default: {}, big: {}}\n" + _tables("s3://a"), "spark.big: no table is served by this profile"),
        (
            "spark: {default: {master: 'spark://m:7077'}}\n"
            "tables: [{id: a, format: hudi, path: /usr, mode: act, services: {compaction: {}}, options: {"
            "lock: {provider: zookeeper, url: 'z:2181', base_path: /b, lock_key: a}}}]",
            "spark.default.master: table a lies on a local path: each Spark worker must have the same folder",
        ),
        (
            "catalogs: {c: {format: iceberg, type: rest, uri: 'http://c'}}\n" + _tables("s3://a"),
            "catalogs.c: no table is of this catalog",
        ),
    ],
)
def test_what_can_be_lived_with_is_a_warning(tmp_path: Path, text: str, warning: str) -> None:
    """The daemon starts: it is one table's trouble, or may be meant."""
    examined = _examined(tmp_path, text)

    (found,) = _found(tmp_path, text, Weight.WARNING)

    assert found.startswith(warning)
    assert examined.config is not None


@pytest.mark.parametrize(
    ("format_name", "inside", "warning"),
    [
        ("iceberg", ".hoodie/hoodie.properties", "the files there are those of a table of the format hudi"),
        ("directory", ".hoodie/hoodie.properties", "the files there are those of a table of the format hudi"),
        ("iceberg", "metadata/00000-6f1c1c3e-7d0b-4f0e-8f0a-0123456789ab.metadata.json", "only its catalog knows"),
        ("iceberg", "metadata/v1.metadata.json", None),
        ("hudi", "data.parquet", None),
    ],
)
def test_a_format_that_the_folder_contradicts_is_told(
    tmp_path: Path, format_name: str, inside: str, warning: str | None
) -> None:
    """It is known without a connection. The other tables are served."""
    made = tmp_path / "t" / inside
    made.parent.mkdir(parents=True)
    made.touch()
    file = tmp_path / "lakewarden.yaml"
    file.write_text(f"tables: [{{id: a, format: {format_name}, path: '{tmp_path}/t'}}]")
    examined = examine(file, to_serve=False, look=True)
    said = [str(problem) for problem in examined.problems]
    assert [f"warning: tables[0].format: {format_name}: {warning}" in line for line in said] == [True] * bool(warning)
    assert examined.config is not None


def test_a_configuration_in_good_order_has_no_problem(tmp_path: Path) -> None:
    """Nobody gets used to warnings that mean nothing."""
    (tmp_path / "orders").mkdir()
    lock = "{provider: zookeeper, url: 'zk:2181', base_path: /locks, lock_key: orders}"
    care = f"mode: act, options: {{lock: {lock}}}, services: {{compaction: {{}}, clean: {{}}}}"

    text = f"tables: [{{id: a, format: hudi, path: '{tmp_path}/orders', {care}}}]"

    assert _examined(tmp_path, text, to_serve=True).problems == ()


# -- the data folder


def test_a_data_folder_that_cannot_be_made_is_an_error_for_who_serves(tmp_path: Path) -> None:
    """And none for who only wants to know how a table is reached."""
    (tmp_path / "file").touch()
    text = f"daemon: {{data_dir: '{tmp_path}/file/data'}}\n" + _tables("s3://a")

    (error,) = _examined(tmp_path, text, to_serve=True).of(Weight.ERROR)

    assert f"lakewarden.yaml:1: daemon.data_dir: cannot be used: {tmp_path}/file is not a folder" in error
    assert _examined(tmp_path, text).config is not None


def test_a_data_folder_inside_of_a_table_is_refused(tmp_path: Path) -> None:
    """A search for orphans would take the store for a file that nobody needs."""
    (error,) = _examined(tmp_path, _tables(tmp_path), to_serve=True).of(Weight.ERROR)

    assert "daemon.data_dir: cannot be used: it lies inside the table t0" in error
    assert _examined(tmp_path, _tables(tmp_path / "t"), to_serve=True).config is not None


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    """The data folder is the daemon's to make."""
    _examined(tmp_path, _tables("s3://a"), to_serve=True)

    assert [entry.name for entry in tmp_path.iterdir()] == ["lakewarden.yaml"]


# -- what does not answer


def test_a_table_on_a_file_system_that_is_gone_is_only_observed(tmp_path: Path) -> None:
    """The others are served. Where its links lead is unknown, so it could be acted on under two names."""
    text = "defaults: {mode: act}\n" + _tables("/gone/a", "/there/b")
    file = tmp_path / "lakewarden.yaml"
    file.write_text(text)

    def ask(*, addresses: set[str], **_: Any) -> Facts:
        return Facts(places={text: place_of(text) for text in addresses if not text.startswith("/gone")})

    examined = examine(file, to_serve=False, ask=ask)

    gone, there = examined.accepted().tables
    assert (gone.location, gone.mode, there.mode) == ("/gone/a", Mode.OBSERVE, Mode.ACT)
    assert [line for line in examined.of(Weight.WARNING) if "'/gone/a' does not answer: it is only observed" in line]


def test_a_question_that_hangs_holds_up_no_other() -> None:
    """However many hang: what is not answered in time is not waited for."""
    for_ever = threading.Event()

    def ask(key: int) -> int:
        if key % 2:
            for_ever.wait()
        return key

    keys = list(range(AT_ONCE))
    found = answered(ask, keys, within=timedelta(seconds=1))
    for_ever.set()

    assert found == {key: key for key in keys if key % 2 == 0}


def test_more_questions_than_threads_are_all_answered() -> None:
    """A thread's end is the next one's beginning."""
    assert len(answered(str, range(3 * AT_ONCE), within=timedelta(seconds=30))) == 3 * AT_ONCE


def test_a_slow_file_system_is_not_taken_for_one_that_is_gone() -> None:
    """As long as answers come, they are waited for: a busy machine at its start makes no table an observed one."""
    turns = [threading.Event() for _ in range(5)]
    turns[0].set()

    def after_the_one_before(key: int) -> int:
        turns[key].wait()
        threading.Timer(0.45, turns[key + 1].set).start() if key < 4 else None
        return key

    assert answered(after_the_one_before, range(5), within=timedelta(milliseconds=1500)) == {n: n for n in range(5)}


def test_the_configuration_is_read_beside_a_file_system_that_is_gone(tmp_path: Path) -> None:
    """A secret in a pipe that nobody writes to stands for it: reading it never ends by itself."""
    os.mkfifo(tmp_path / "secret")
    file = tmp_path / "lakewarden.yaml"
    store = f"{{prefix: 's3://a', access_key: {{file: '{tmp_path}/secret'}}, secret_key: {{env: PATH}}}}"
    file.write_text(f"storage: [{store}]\n" + _tables("s3://a"))

    def in_a_moment(**asked: Any) -> Facts:
        return gather(**asked, within=timedelta(seconds=1))

    (warning,) = examine(file, to_serve=True, ask=in_a_moment).of(Weight.WARNING)
    with (tmp_path / "secret").open("w"):
        pass  # lets the thread go

    assert "storage[0].access_key: a secret is missing: its file does not answer" in warning


# -- the clients of the ports


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("api: {host: 0.0.0.0}", "api.host"),
        ('api: {host: "::"}', "api.host"),
        ("api: {host: 192.0.2.7}", "api.host"),
        ("api: {host: lakewarden.example.com}", "api.host"),
        ("management: {host: 0.0.0.0}", "management.host"),
    ],
)
def test_a_port_that_others_reach_needs_authentication(tmp_path: Path, text: str, at: str) -> None:
    """The daemon does not start, and the message says what to do. With authentication it starts."""
    (error,) = _found(tmp_path, f"{text}\ntables: []", Weight.ERROR)
    assert error.startswith(f"{at}: ")
    assert "set access.authentication: keys" in error

    assert not _found(tmp_path, f"{text}\naccess: {{authentication: keys}}\ntables: []", Weight.ERROR)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_on_a_loopback_address_authentication_may_be_left_out(tmp_path: Path, host: str) -> None:
    """Only programs of the machine reach it."""
    text = f"api: {{host: '{host}'}}\nmanagement: {{host: '{host}'}}\ntables: []"
    assert not _found(tmp_path, text, Weight.ERROR)


def test_keys_that_are_not_asked_for_are_a_warning(tmp_path: Path) -> None:
    """A person may believe that they protect something."""
    text = "access: {keys: [{name: a, role: hook, key: {env: PATH}}]}\ntables: []"
    assert "access.keys: access.authentication is none: no key is required" in _found(tmp_path, text, Weight.WARNING)


@pytest.mark.parametrize(
    "key",
    [
        "{name: a, role: hook, key: written-down}",
        "{name: a, role: root, key: {env: PATH}}",
        "{name: a b, role: hook, key: {env: PATH}}",
        "{name: a, role: hook, tables: [], key: {env: PATH}}",
        "{name: a, role: hook, tables: ['a b'], key: {env: PATH}}",
        "{name: a, role: hook}",
    ],
)
def test_a_wrong_key_is_refused_with_its_place(tmp_path: Path, key: str) -> None:
    """A key that is written down is not repeated."""
    (error,) = _found(tmp_path, f"access: {{authentication: keys, keys: [{key}]}}\ntables: []", Weight.ERROR)
    assert error.startswith("access.keys[0]")
    assert "written-down" not in error


def test_one_secret_is_one_key(tmp_path: Path) -> None:
    """Two roles for one secret contradict each other."""
    keys = "{name: a, role: hook, key: {env: A}}, {name: b, role: admin, key: {env: A}}"
    (error,) = _found(tmp_path, f"access: {{authentication: keys, keys: [{keys}]}}\ntables: []", Weight.ERROR)
    assert "more than once" in error


# -- roots


def test_a_table_outside_of_the_roots_is_an_error(tmp_path: Path) -> None:
    """By whole names, with links followed. A name in a catalog is no place, and its files are held when they are
    read.
    """
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "link").symlink_to("/etc")
    paths = (f"{tmp_path}/lake/t", f"{tmp_path}/lake2/t", f"{tmp_path}/lake/link/t", "s3a://b/t", "s3://b2/t")
    found = _found(tmp_path, f"roots: ['{tmp_path}/lake', 's3://b/']\n{_tables(*paths)}", Weight.ERROR)
    assert [one.partition(":")[0] for one in found] == ["tables[1].path", "tables[2].path", "tables[4].path"]
    assert all("lies outside of the roots: " in one for one in found)


@pytest.mark.parametrize("root", ["lake", "s3:///x", "catalog://lake/a.b", "s3://b/../c"])
def test_a_root_that_is_no_place_is_an_error(tmp_path: Path, root: str) -> None:
    """Otherwise no table would be below it, and the reason would be told of each table."""
    found = _found(tmp_path, f"roots: ['{root}']\n", Weight.ERROR)
    assert [one.partition(":")[0] for one in found] == ["roots[0]"]
