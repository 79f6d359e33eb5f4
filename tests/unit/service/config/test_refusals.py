"""Wrong configurations are refused at start: every problem at once, each with the path of its key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.settings import S3Store
from lakewarden.service.config.document import DEEPEST, LARGEST_BYTES
from lakewarden.service.config.loading import load
from lakewarden.service.config.settings import Configuration

A_TABLE = "{id: orders, format: hudi, path: /data/orders}"


def _problems(folder: Path, text: str) -> list[str]:
    """Return what is wrong with a file, without its name."""
    file = folder / "lakewarden.yaml"
    file.write_text(text)
    with pytest.raises(PermanentError) as refused:
        load(file)
    return [re.sub(rf"^{re.escape(str(file))}(:\d+)?: ", "", line) for line in str(refused.value).splitlines()]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("daemon: {drian: 10s}", "daemon.drian: unknown key; did you mean drain?"),
        ("tables: [{id: a, format: hudi, path: /x/..}]", "tables[0].path: is the whole file system, not a table"),
        ("defaults: {poll: \u0665s}", "defaults.poll: '\u0665s' is not a duration"),
        (
            "storage: [{prefix: 's3://b', hadoop: {fs.s3a.bucket.b.secret.key: x}}]",
            "storage[0].hadoop: fs.s3a.bucket.b.secret.key is for Spark alone: set secret_key",
        ),
        (
            "storage: [{prefix: 's3://b', hadoop: {fs.s3a.endpoint: x}}]",
            "storage[0].hadoop: fs.s3a.endpoint is for Spark alone: set endpoint",
        ),
        ("tables: {id: a}", "tables: needs a list: begin each entry with a dash, not keys"),
        ("spark: [{default: {}}]", "spark: needs keys below it, not a list"),
        ("daemon: drain:10s", "daemon: needs keys below it, with a space after the colon, not 'drain:10s'"),
        ("spark: {default: {workers: two}}", "spark.default.workers: needs a whole number, not 'two'"),
        ("spark: {default: {workers: 1.5}}", "spark.default.workers: needs a whole number, not 1.5"),
        (
            "defaults: {poll: 10min}",
            "defaults.poll: '10min' is not a duration: write a number and one of ms, s, m, h, d",
        ),
        ("defaults: {Poll: 10s}", "defaults.Poll: unknown key; did you mean poll?"),
        ("spark: {default: {memory: 4GB}}", "spark.default.memory: '4GB' is not a heap that a session can work with"),
        ("spark: {../../x: {}}", "spark.../../x: '../../x' does not have the form"),
        ('spark: {"\\e[31mred": {}}', r"spark.'\x1b[31mred': '\x1b[31mred' does not have the form"),
        ("tabels: []", "tabels: unknown key; did you mean tables?"),
        (
            "daemon: {drain: 10}",
            "daemon.drain: 10 is not a duration: write a number and one of ms, s, m, h, d, as in 10s",
        ),
        ("daemon: {lease: 9s}", "daemon.lease: 9s is too low: write 10s to 1h"),
        ("database: {url: /var/lib/db}", "database.url: a database is named in the form postgresql://user@host:5432/"),
        (
            "database: {url: 'mysql://db/x'}",
            "database.url: a database is named in the form postgresql://user@host:5432/",
        ),
        ("database: {url: 'postgresql://db'}", "database.url: a database is named in the form postgresql://user@host"),
        ("database: {url: 'postgresql://db:x/y'}", "database.url: a database is named in the form postgresql://user@h"),
        ("database: {password: {env: P}}", "database: a SQLite file has no password: give a url too"),
        ("database: {url: 'postgresql://db/x', password: hunter2}", "database.password: a secret must not be in"),
        ("defaults: {poll: 10 sec}", "defaults.poll: '10 sec' is not a duration: write a"),
        ("defaults: {mode: act!}", "defaults.mode: must be observe, plan or act, not 'act!'; did you mean act?"),
        ("api: {port: 99999}", "api.port: 99999 is too high: write 1 to 65535"),
        ("api: {port: 8081}", "api.port: 8081 is the management.port too"),
        ("management: {port: 8080}", "management.port: 8080 is the api.port too"),
        ("spark: {default: {timezone: UCT+1}}", "spark.default.timezone: 'UCT+1' is not an IANA time zone"),
        (
            "spark: {default: {conf: {spark.master: yarn}}}",
            "spark.default.conf: spark.master is set by Lakewarden itself: use master",
        ),
        ("tables: [{id: a b, format: hudi, path: /x}]", "tables[0].id: 'a b' does not have the form"),
        ("tables: [{id: a, format: hudi}]", "tables[0].path: is missing"),
        ("tables: [{id: a, format: hudi, path: x}]", "tables[0].path: 'x' is not absolute"),
        ("tables: [{id: a, format: hudy, path: /x}]", "tables[0].format: 'hudy' is not a format: use one of hudi"),
        ("tables: [{id: a, format: hudi, path: /x, spark: big}]", "tables[0].spark: there is no spark profile 'big'"),
    ],
)
def test_a_problem_is_named_by_the_path_of_its_key(tmp_path: Path, written: str, problem: str) -> None:
    """Whoever wrote the file finds the place, what is wrong there, and what may stand there instead."""
    (found,) = _problems(tmp_path, written)

    assert found.startswith(problem)


def test_a_wrong_catalog_hides_no_problem_of_its_tables(tmp_path: Path) -> None:
    """All are told at once."""
    catalog = "catalogs: {c: {format: iceberg, type: sql, uri: 'jdbc:postgresql://h/d', warehouse: /x}}"
    found = _problems(tmp_path, f"{catalog}\ntables: [{{match: 'catalog://c/*', policy: q, mode: acts}}]")
    assert [one.partition(": ")[0] for one in found] == ["catalogs.c", "tables[0].mode", "tables[0].policy"]
    assert found[0].endswith("must be hadoop, jdbc, rest, hive, not 'sql'; did you mean jdbc?")


@pytest.mark.parametrize("url", ["postgresql://me:hunter2@db/x", "postgresql://me@db/x?password=hunter2"])
def test_a_password_in_the_databases_url_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    """The configuration and its errors may be read by people who must not know it."""
    (found,) = _problems(tmp_path, f"database: {{url: '{url}'}}")

    assert found.startswith("database.url: the url must not have a password: remove it, and set password: {env: ")
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("compactoin: {}", "services.compactoin: there is no 'compactoin'; did you mean compaction?"),
        ("expire_snapshots: {}", "services.expire_snapshots: there is no 'expire_snapshots'; did you mean clean?"),
        ("qwertz: {}", "services.qwertz: must be compaction, log_compaction, "),
        ("clean: {window: '22:00-06:00'}", 'services.clean.window: needs keys below it, as in {start: "22:00", end:'),
        (
            "orphans: {}",
            "services.orphans: orphans is not supported on hudi; supported are compaction, log_comp",
        ),
        ("clean: {triger: {}}", "services.clean.triger: unknown key; did you mean trigger?"),
        ("clean: {trigger: {num_commit: 1}}", "services.clean.trigger: 'num_commit' is not a trigger: use one of"),
        ("clean: {trigger: {num_commits: 0}}", "services.clean.trigger: num_commits: 0 is too low: write 1"),
        ("clean: {trigger: {num_commits: true}}", "services.clean.trigger: num_commits: true is not a number"),
        ("clean: {trigger: {all_of: []}}", "services.clean.trigger: all_of: needs a list of triggers"),
        ("clean: {trigger: {num_commits: 1, time_elapsed: 1h}}", "services.clean.trigger: a trigger is one of"),
        ("clean: {trigger: {time_elapsed: 60}}", "services.clean.trigger: time_elapsed: 60 is not a duration: write a"),
        ("clean: {options: {commits_retaned: 1}}", "services.clean.options.commits_retaned: unknown key; did"),
        (
            "clustering: {options: {partition_regex: '('}}",
            "services.clustering.options.partition_regex: '(' is no",
        ),
        (
            "clustering: {options: {small_file_limit: 1GiB}}",
            "services.clustering.options: small_file_limit: 1GiB must",
        ),
        ("clean: {options: {hours_retained: 3}}", "services.clean.options: hours_retained: 3 has no effect under"),
    ],
)
def test_a_wrong_policy_is_named_by_the_path_of_its_key(tmp_path: Path, written: str, problem: str) -> None:
    """What a format declares of its services is checked like our own settings, with the same paths."""
    (found,) = _problems(tmp_path, f"tables: [{{id: a, format: hudi, path: /x, services: {{{written}}}}}]")

    assert found.startswith(f"tables[0].{problem}")


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{lock: {provider: zookeper}}", "options.lock: "),
        (
            "{lock: {provider: zookeeper, url: zk, base_path: /h, lock_key: a}}",
            "options.lock.url: 'zk' does not have the form of zk1",
        ),
        ("{lock: {provider: filesystem, lock_key: a}}", "options.lock.lock_key: unknown key"),
        (
            "{lock: {provider: zookeeper, url: 'zk:1', base_path: /h, lock_key: a, port: 1}}",
            "options.lock.port: unknown key; it may be base_path, lock_key, provider, url",
        ),
        ("{conf: {a: true}}", 'options.conf.a: needs quotes to be text: "true"'),
        ("{writers: none, lok: {}}", "options.lok: unknown key; did you mean lock?"),
    ],
)
def test_wrong_options_are_named_without_the_inner_names_of_unions(tmp_path: Path, written: str, problem: str) -> None:
    """A path holds what stands in the file, and nothing of how it is read."""
    (found,) = _problems(tmp_path, f"tables: [{{id: a, format: hudi, path: /x, options: {written}}}]")

    assert found.startswith(f"tables[0].{problem}")


@pytest.mark.parametrize(
    ("theirs", "ours"), [("expire_snapshots", "clean"), ("rewrite_data_files", "compaction"), ("vacuum", "clean")]
)
def test_a_service_by_the_name_of_another_tool_is_told_ours(tmp_path: Path, theirs: str, ours: str) -> None:
    (found,) = _problems(tmp_path, f"tables: [{{id: a, format: iceberg, path: /x, services: {{{theirs}: {{}}}}}}]")
    assert found.endswith(f"; did you mean {ours}?")


@pytest.mark.parametrize(
    ("written", "at", "home"),
    [
        ("lock: {provider: filesystem}", "lock", "below the options of a table, a policy or defaults"),
        ("poll: 3s", "poll", "to a table, a policy or defaults"),
        ("defaults: {commits_retained: 3}", "defaults.commits_retained", "below services.clean.options"),
        (
            "tables: [{id: a, format: hudi, path: /x, lock: {}}]",
            "tables[0].lock",
            "below the options of a table, a policy or defaults",
        ),
        (
            "tables: [{id: a, format: hudi, path: /x, services: {clean: {options: {trigger: {num_commits: 1}}}}}]",
            "tables[0].services.clean.options.trigger",
            "below a service, such as services.clean",
        ),
        (
            "tables: [{id: a, format: hudi, path: /x, services: {rollback: {options: {dead_after: 3m}}}}]",
            "tables[0].services.rollback.options.dead_after",
            "below the options of a table, a policy or defaults",
        ),
    ],
)
def test_a_key_at_a_wrong_place_is_told_where_it_belongs(tmp_path: Path, written: str, at: str, home: str) -> None:
    assert _problems(tmp_path, written) == [f"{at}: unknown key here: it belongs {home}"]


@pytest.mark.parametrize(
    ("path", "provider", "reason"),
    [("/x", "storage", "conditional writes"), ("s3://lake/x", "filesystem", "creates files atomically")],
)
def test_a_lock_that_cannot_work_where_the_table_is_is_refused(
    tmp_path: Path, path: str, provider: str, reason: str
) -> None:
    """The first commit would find it out, in the middle of the night."""
    table = f"{{id: a, format: hudi, path: '{path}', options: {{lock: {{provider: {provider}}}}}}}"

    (found,) = _problems(tmp_path, f"tables: [{table}]")

    assert found.startswith(f"tables[0].options.lock.provider: {provider} needs")
    assert reason in found


def test_problems_of_every_kind_come_at_once(tmp_path: Path) -> None:
    """A typing error hides neither a contradiction nor a wrong option: one start shows all that is to be mended."""
    found = _problems(
        tmp_path,
        f"""
        api: {{port: 8081, hots: 0.0.0.0}}
        tables:
          - {A_TABLE}
          - {{id: orders, format: hudi, path: "file:///data/orders", poll: soon, options: {{lock: {{}}}}}}
        """,
    )

    assert [problem.partition(":")[0] for problem in found] == [
        "api.hots",
        "api.port",
        "tables[1].poll",
        "tables[1].id",
        "tables[1].options.lock",
        "tables[1].path",
    ]


def test_contradictions_name_both_keys(tmp_path: Path) -> None:
    """Two entries that cannot both hold are both named: either may be the wrong one."""
    found = _problems(tmp_path, f"tables: [{A_TABLE}, {A_TABLE}]")

    assert found == [
        "tables[1].id: the id orders is registered at tables[0].id already",
        "tables[1].path: the table at /data/orders is registered at tables[0].path already",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tables: []\ntables: []", "2: tables: appears a second time; the first is on line 1"),
        ("api:\n  port: 1\n  host: a\n  port: 2", "4: api.port: appears a second time; the first is on line 2"),
        ("a: &x [1]\nb: *x", "2: aliases (*name) are not read: write what tables share as a policy under policies"),
        ("a: &x {b: 1}\nc: {<<: *x}", "2: aliases (*name) are not read"),
        ("a: &x [*x]", "1: aliases (*name) are not read"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), f"1: nested more than {DEEPEST} deep"),
        ("[" * 100_000, "1: nested more than"),
        ("tables: !!python/object:os.system x", "1: the tag 'tag:yaml.org,2002:python/object:os.system' is not read"),
        ("tables: !secret x", "1: the tag '!secret' is not read: write a plain value"),
        ("a: 1\ntables: [", "2: not valid YAML: did not find expected node content"),
        ("daemon:\n\tdrain: 10s", "2: not valid YAML: found character that cannot start any token: indent with spaces"),
        ("tables:\n  - id: a\n   format: b", "3: not valid YAML: did not find expected '-' indicator: check the ind"),
        ("a: b: c", "1: not valid YAML: mapping values are not allowed in this context: a colon too many"),
        ("- a\n- b", "1: must hold a mapping with keys such as tables, not a list"),
        ("[]", "1: must hold a mapping"),
        ("tables", "1: must hold a mapping with keys such as tables, not just 'tables'"),
        ("? [a]\n: b", "1: a key is a text, no list and no mapping"),
        ("a: 1\n---\nb: 2", "2: not valid YAML: but found another document: remove the line ---"),
        ("\x00", "1: not valid YAML: control characters are not allowed"),
    ],
)
def test_yaml_that_would_pass_in_silence_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """With the line and what to write instead: keys that stand twice, aliases that grow, tags, broken indentation."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(text)

    with pytest.raises(PermanentError) as refused:
        load(file)

    assert f"{file}:{problem}" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "\ufefftables: []\n",
        "daemon:\r\n  drain: 10s\r\n",
        "storage:\n  - {prefix: s3://b, path_style: yes, anonymous: on}\n",
        "storage: [{prefix: 's3://no', region: no}]",
        "api: {port: '8080'}",
        "api: {port: 08080}",
    ],
)
def test_what_people_and_their_editors_write_is_read(tmp_path: Path, text: str) -> None:
    """A byte order mark, Windows' line ends, `yes` and `on` for switches, `no` for Norway, numbers in quotes."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(text, newline="")

    settings = load(file).settings

    assert settings.api.port == 8080
    assert [store.region for store in settings.storage if isinstance(store, S3Store)] in ([], [None], ["no"])
    assert all(store.path_style for store in settings.storage if isinstance(store, S3Store) and store.anonymous)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message says which file was looked for."""
    with pytest.raises(PermanentError, match=re.escape(f"{tmp_path}/no.yaml: no such configuration file")):
        load(tmp_path / "no.yaml")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """A configuration has a size that people write."""
    file = tmp_path / "large.yaml"
    with file.open("wb") as content:
        content.truncate(LARGEST_BYTES + 1)

    with pytest.raises(PermanentError, match="larger than"):
        load(file)


@pytest.mark.parametrize("content", [b"a: 1\ndaemon: {data_dir: \xfc}", "a: 1\n".encode("utf-16")])
def test_a_file_in_another_encoding_is_refused(tmp_path: Path, content: bytes) -> None:
    """What is not UTF-8 is refused in one line, without a stack trace."""
    file = tmp_path / "latin.yaml"
    file.write_bytes(content)

    with pytest.raises(PermanentError, match="it is not UTF-8: save it in that encoding"):
        load(file)


def _keys(model: type[Settings]) -> list[str]:
    return sorted(model.model_fields)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc1:/{}", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*_keys(Configuration), "id"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(document=st.dictionaries(st.sampled_from([*_keys(Configuration), "x"]), _VALUES, max_size=4))
def test_no_document_is_answered_with_a_stack_trace(
    document: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is written, it loads or is refused with at least one line that names a key."""
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(repr(document).replace("None", "null").replace("True", "true").replace("False", "false"))
    try:
        load(file)
    except PermanentError as refused:
        assert all(line.startswith(f"{file}:") for line in str(refused).splitlines())  # noqa: PT017
