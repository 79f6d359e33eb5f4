"""The settings of a table come from four levels, and each value knows its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, SettingOrigin, Table
from lakewarden.planners.storage import Storages
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.config.document import Values
from lakewarden.service.config.layers.patches import NOTHING, Patch, combined, of_levels, origins, patch_of, plain
from lakewarden.service.config.layers.patterns import in_share
from lakewarden.service.config.loading import Config, load
from lakewarden.service.control.discovery import sources_of
from tests.support.doubles.formats import TEST_FORMATS

LEVELS = """\
defaults: {budget: {files: 5, percent: 50}, labels: {team: data}}
policies:
  stream:
    mode: plan
    contact: "{namespace} people"
    labels: {domain: "{table}"}
    services:
      compaction: {trigger: {num_commits: 7}, grace: 1m}
      clean: {trigger: {num_commits: 2}}
  other:
    mode: act
tables:
  - match: /lake/*/
    format: hudi
    policy: stream
    poll: 1m
    exclude: [/lake/tmp_*]
  - path: /lake/orders
    budget: {percent: 80}
    services:
      clean: off
      compaction: {trigger: {num_commits: 3}}
  - {path: /elsewhere/orders, format: hudi, id: b}
"""


def loaded(folder: Path, text: str) -> Config:
    """Return what a file becomes."""
    file = folder / "lakewarden.yaml"
    file.write_text(text)
    return load(file, formats=TEST_FORMATS)


def refused(folder: Path, text: str) -> list[str]:
    """Return why a file is refused, without the name of its folder."""
    with pytest.raises(PermanentError) as wrong:
        loaded(folder, text)
    return str(wrong.value).replace(f"{folder}/", "").splitlines()


def said(table: Table, key: str) -> tuple[str, str | None] | None:
    """Return the level and the place of a setting."""
    origin = table.origin(key)
    return None if origin is None else (origin.level, table.place(origin))


def test_a_more_special_level_counts_key_by_key(tmp_path: Path) -> None:
    """Defaults, then the policy, then the pattern, then the entry of the table."""
    orders, b = loaded(tmp_path, LEVELS).tables

    assert (orders.id, orders.mode, orders.poll.total_seconds()) == ("lake.orders", Mode.PLAN, 60)
    assert (orders.budget.files, orders.budget.percent) == (5, 80)
    assert (orders.labels, orders.contact) == ({"team": "data", "domain": "orders"}, "lake people")
    assert set(orders.policies) == {Service.COMPACTION}
    assert orders.policies[Service.COMPACTION].trigger.describe() == "3 commits since the last one"
    assert orders.policies[Service.COMPACTION].grace.total_seconds() == 60
    assert (b.mode, b.policies, b.labels) == (Mode.OBSERVE, {}, {"team": "data"})


def test_each_value_says_its_file_its_line_and_its_level(tmp_path: Path) -> None:
    """That is what an operator needs to change it."""
    orders, _ = loaded(tmp_path, LEVELS).tables

    assert said(orders, "budget.files") == ("defaults", "lakewarden.yaml:1")
    assert said(orders, "mode") == ("policy stream", "lakewarden.yaml:4")
    assert said(orders, "poll") == ("pattern /lake/*/", "lakewarden.yaml:16")
    assert said(orders, "budget.percent") == ("table", "lakewarden.yaml:19")
    assert said(orders, "services.compaction.trigger") == ("table", "lakewarden.yaml:22")
    assert said(orders, "services.compaction.grace") == ("policy stream", "lakewarden.yaml:8")
    assert said(orders, "services.compaction.window") is None
    assert said(orders, "spark") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("policies:\n  a: {pol: 1s}\n", "lakewarden.yaml:2: policies.a.pol: unknown key; did you mean poll?"),
        (
            "tables:\n- {path: /x, format: fake, policy: a}",
            "lakewarden.yaml:2: tables[0].policy: there is no policy 'a'",
        ),
        (
            'policies:\n  a:\n    contact: "{tabel}"\n',
            "lakewarden.yaml:3: policies.a.contact: '{tabel}' is not a placeholder: write {id}, {table},",
        ),
        (
            "policies:\n  a:\n    options: {nothing: 1}\ntables:\n- {path: /x, format: hudi, policy: a}\n"
            "- {path: /y, format: hudi, policy: a}",
            "lakewarden.yaml:3: policies.a.options.nothing: unknown key",
        ),
        (
            "defaults:\n  spark: big\ntables: [{path: /x, format: fake}]",
            "lakewarden.yaml:2: defaults.spark: there is no",
        ),
        ("tables: [{path: /x, match: /y/*, format: hudi}]", "lakewarden.yaml:1: tables[0].path: is of one table, and"),
        ("tables: [{id: a, format: fake}]", "lakewarden.yaml:1: tables[0].path: is missing: write the path of one"),
        ("tables: [{path: /x, format: fake, share: 5}]", "lakewarden.yaml:1: tables[0].share: is for patterns"),
        ("tables: [{match: '*/x', format: hudi}]", "lakewarden.yaml:1: tables[0].match: '*/x' must begin with a place"),
        (
            "tables: [{match: /x/*, format: fake}]",
            "lakewarden.yaml:1: tables[0].match: fake tables are not found by th",
        ),
    ],
)
def test_a_problem_is_named_once_where_it_is_written(tmp_path: Path, text: str, problem: str) -> None:
    """A mistake in a policy of 800 tables is one line, and that line is the line of the policy."""
    (found,) = refused(tmp_path, text)

    assert found.startswith(problem)


@settings(max_examples=10)
@given(word=st.from_regex(r"[a-z_]{1,12}", fullmatch=True))
def test_an_unknown_key_is_refused_with_its_place_at_every_level(
    word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No level takes a key in silence that means nothing."""
    folder = tmp_path_factory.getbasetemp()
    unknown = f"x_{word}"
    levels = {
        f"defaults.{unknown}": f"defaults:\n  {unknown}: 1\n",
        f"policies.a.{unknown}": f"policies:\n  a: {{{unknown}: 1}}\n",
        f"tables[0].{unknown}": f"tables:\n- {{path: /x, format: fake, {unknown}: 1}}\n",
    }
    for key, text in levels.items():
        (found,) = refused(folder, text)
        assert found.startswith(f"lakewarden.yaml:2: {key}: unknown key")


def test_a_service_that_a_format_does_not_have_does_not_apply(tmp_path: Path) -> None:
    """One policy may hold for tables of several formats. In the entry of a table such a service is a mistake."""
    text = "policies: {all: {services: {compaction: , ttl: {options: {days_retain: 9}}}}}\ntables:\n"
    iceberg, hudi = loaded(
        tmp_path, f"{text}- {{path: /x, format: iceberg, policy: all}}\n- {{path: /y, format: hudi, policy: all}}"
    ).tables

    assert (set(iceberg.policies), iceberg.unfit) == (
        {Service.COMPACTION},
        {Service.TTL: "iceberg tables have no ttl"},
    )
    assert (set(hudi.policies), hudi.unfit) == ({Service.COMPACTION, Service.TTL}, {})
    assert re.match(
        r"lakewarden.yaml:1: tables\[0\].services.ttl: ttl is not supported on iceberg",
        refused(tmp_path, "tables: [{path: /x, format: iceberg, services: {ttl: }}]")[0],
    )


def test_tables_of_one_policy_share_their_settings(tmp_path: Path) -> None:
    """Ten thousand tables need the memory of one table's settings."""
    entries = "".join(
        f"- {{path: /lake/t{number}, format: fake, policy: a, labels: {{x: y}}}}\n" for number in range(9)
    )
    tables = loaded(tmp_path, f"policies: {{a: {{services: {{compaction: , clean: }}}}}}\ntables:\n{entries}").tables

    for name in ("policies", "sources", "labels", "budget", "file"):
        assert len({id(getattr(table, name)) for table in tables}) == 1
    assert [said(table, "labels.x") for table in tables] == [
        ("table", f"lakewarden.yaml:{line}") for line in range(3, 12)
    ]


@given(names=st.lists(st.text(max_size=20), max_size=30, unique=True), shares=st.tuples(*[st.floats(0, 100)] * 2))
def test_a_higher_share_only_adds_tables(names: list[str], shares: tuple[float, float]) -> None:
    """No table is let go when a rollout goes on."""
    fewer, more = sorted(shares)
    first, second = ({name for name in names if in_share(name, share)} for share in (fewer, more))

    assert first <= second
    assert {name for name in names if in_share(name, 100)} == set(names)
    assert not {name for name in names if in_share(name, 0)}


def test_a_share_is_what_it_says(tmp_path: Path) -> None:
    """A tenth of a thousand tables is about a hundred, and the others have the next pattern."""
    found = sum(in_share(f"lake.t{number}", 10) for number in range(1000))

    assert 70 < found < 130
    entries = "".join(f"- {{path: /lake/t{number}, format: fake}}\n" for number in range(50))
    some = "{match: /lake/*, format: hudi, share: 30, mode: plan}"
    rest = "{match: /lake/*, format: hudi, poll: 1m}"
    tables = loaded(tmp_path, f"tables:\n- {some}\n- {rest}\n{entries}").tables
    assert {table.id for table in tables if table.mode is Mode.PLAN} == {
        table.id for table in tables if in_share(table.id, 30)
    }
    assert all(table.mode is Mode.PLAN or table.poll.total_seconds() == 60 for table in tables)


def test_forty_lines_describe_eight_hundred_tables(tmp_path: Path) -> None:
    """The entries are patterns, and the settings are policies."""
    lake = tmp_path / "lake"
    for number in range(800):
        (lake / f"t{number:03}" / ".hoodie").mkdir(parents=True)
        (lake / f"t{number:03}" / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=t\n")
    text = (
        "policies:\n  stream:\n    services: {compaction: {trigger: {num_commits: 9}}, clean: }\n"
        '    options: {lock: {provider: zookeeper, url: "zk:1", base_path: /l, lock_key: "{table}"}}\n'
        f"tables:\n  - match: {json.dumps(str(lake))[1:-1]}/*/\n    format: hudi\n    policy: stream\n"
    )
    config = loaded(tmp_path, text)
    (source,) = sources_of(config.discover, Storages())
    found = source.find()

    assert len(text.splitlines()) <= 40
    assert len(found.tables) == 800
    assert not found.refused
    assert len({table.options.lock.lock_key for table in found.tables}) == 800
    assert {table.policies[Service.COMPACTION].trigger for table in found.tables} == {NumCommits(at_least=9)}


def test_the_formats_of_workers_are_those_of_their_tables(tmp_path: Path) -> None:
    """A Hudi and an Iceberg table need no list of bundles. A list that is written counts, and is checked."""
    tables = (
        "tables:\n- {path: /x, format: iceberg, mode: act, services: {clean: }}\n"
        "- {path: /y, format: hudi, mode: act, services: {clean: }}"
    )

    assert set(loaded(tmp_path, tables).settings.spark["default"].formats) == {"hudi", "iceberg"}
    assert loaded(tmp_path, "tables: [{path: /y, format: iceberg}]").settings.spark["default"].formats == ("hudi",)
    (found,) = refused(tmp_path, f"spark: {{default: {{formats: [hudi]}}}}\n{tables}")
    assert found == (
        "lakewarden.yaml:3: tables[0].spark: the workers of 'default' have no bundle of iceberg: add it to "
        "spark.default.formats"
    )


# What several levels say together.


_KEYS = st.sampled_from(["a", "b", "provider", "type", "trigger", "window"])
_LEAVES = st.integers(0, 3) | st.none() | st.just(False) | st.lists(st.integers(0, 3), max_size=2)
_SAID = st.dictionaries(
    _KEYS, st.recursive(_LEAVES, lambda below: st.dictionaries(_KEYS, below, max_size=3)), max_size=3
)


@st.composite
def _levels(draw: st.DrawFn) -> list[Patch]:
    return [patch_of(draw(_SAID), name) for name in ("defaults", "policy", "pattern", "table")]


@given(levels=_levels())
def test_levels_may_be_combined_in_any_grouping(levels: list[Patch]) -> None:
    """So what a policy and a pattern say together can be kept, and given to thousands of tables."""
    a, b, c, d = levels

    assert combined(combined(a, b), combined(c, d)) == combined(a, combined(combined(b, c), d)) == of_levels(a, b, c, d)
    assert combined(NOTHING, a) == of_levels(a)


@given(general=_SAID, special=_SAID)
def test_a_more_special_level_wins(general: dict[str, Any], special: dict[str, Any]) -> None:
    """Each value that it says is in force. Each value that it does not say is that of the general level, or is gone
    with the whole value that it belonged to.
    """
    both = of_levels(patch_of(general, "defaults"), patch_of(special, "table"))
    said = dict(_leaves(plain(both)))

    for key, value in _leaves(special):
        assert said[key] == value
    assert said.items() <= {**dict(_leaves(general)), **dict(_leaves(special))}.items() or not said
    for key, origin in origins(both):
        level = special if origin.level == "table" else general
        assert _at(level, key) is not _MISSING


@given(special=_SAID)
def test_a_choice_is_replaced_as_a_whole(special: dict[str, Any]) -> None:
    """The keys of one lock mean nothing to another lock, and half a trigger is another trigger."""
    general = {"lock": {"provider": 1, "url": 2}, "trigger": {"num_commits": 5}}
    both = plain(
        of_levels(
            patch_of(general, "policy"),
            patch_of({"lock": {**special, "provider": 2}, "trigger": special}, "table"),
        )
    )

    assert both == {"lock": {**special, "provider": 2}, "trigger": special}


def test_each_value_knows_its_level_and_its_line() -> None:
    """Lines of a table's own entry are counted from its first line: thousands of entries then share their origins."""
    (first, second) = Values("- id: a\n  options: {x: 1}\n- id: a\n  options: {x: 1}\n").read()
    one, other = (patch_of(entry, "table", relative_to=entry.line) for entry in (first, second))

    assert one == other
    assert dict(origins(one))["options.x"] == SettingOrigin(level="table", line=1, relative=True)
    assert dict(origins(patch_of(second, "defaults")))["options.x"] == SettingOrigin(level="defaults", line=4)


_MISSING = object()


def _at(value: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _leaves(value: dict[str, Any], at: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, below in value.items():
        found += _leaves(below, f"{at}.{key}") if isinstance(below, dict) else [(f"{at}.{key}", repr(below))]
    return found
