"""What a configuration file becomes."""

from __future__ import annotations

import json
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.options.service_options import CleanOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, ZookeeperLock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Scheduling
from lakewarden.planners.triggers import AllOf, AnyOf, NumCommits, NumCommitsAfterLastRequest, TimeElapsed
from lakewarden.service.config.document import Values, read_document
from lakewarden.service.config.loading import Config, load
from lakewarden.service.config.problems import KeyPath

FIVE_LINES = """
tables:
  - id: sales.orders
    format: hudi
    path: /data/lake/orders
    options: {lock: {provider: zookeeper, url: "zk1:2181", base_path: /hudi/locks, lock_key: orders}}
    services: {compaction: {}, clean: }
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Config:
    """Return what the shortest useful file becomes."""
    return _load(tmp_path, FIVE_LINES)


def _load(folder: Path, text: str) -> Config:
    file = folder / "lakewarden.yaml"
    file.write_text(text)
    return load(file)


def test_five_lines_connect_a_table(loaded: Config) -> None:
    """A table needs an id, a format, a path, its lock and the services it wants; the rest has defaults."""
    (table,) = loaded.tables

    assert (table.id, table.format, table.location) == ("sales.orders", "hudi", "/data/lake/orders")
    assert (table.mode, table.poll, table.spark) == (Mode.OBSERVE, timedelta(seconds=10), "default")
    assert table.options == HudiTableOptions(
        lock=ZookeeperLock(provider="zookeeper", url="zk1:2181", base_path="/hudi/locks", lock_key="orders")
    )


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("", "http://127.0.0.1:8080"),
        ("host: 10.0.0.7, port: 9000", "http://10.0.0.7:9000"),
        ('host: "::1"', "http://[::1]:8080"),
        ("host: 0.0.0.0", f"http://{socket.gethostname()}:8080"),
        ("public_url: https://lakewarden.example/", "https://lakewarden.example"),
    ],
)
def test_the_api_has_an_address_for_others(tmp_path: Path, written: str, url: str) -> None:
    """Writers are told where to announce their commits: nobody can call an address that listens everywhere."""
    keys = "access: {authentication: keys}"
    assert _load(tmp_path, f"{keys}\napi: {{{written}}}").settings.api.url == url


@pytest.mark.parametrize(
    ("written", "peer"),
    [
        ("public_url: 'http://lake.example.com/'", "http://lake.example.com"),
        ("peer_url: 'http://{hostname}.pods.data.svc:8080/'", "http://NAME.pods.data.svc:8080"),
        ("public_url: 'http://lake.example.com', peer_url: 'https://one.example.com'", "https://one.example.com"),
    ],
)
def test_replicas_may_reach_each_other_at_an_address_of_their_own(tmp_path: Path, written: str, peer: str) -> None:
    """Writers reach all pods by one name, and a pod is reached by its own. Its name is put in."""
    api = _load(tmp_path, f"api: {{{written}}}").settings.api

    assert api.peer == peer.replace("NAME", socket.gethostname())
    assert (urlsplit(api.peer).hostname or "") in api.names


@pytest.mark.parametrize("url", ["http://user:hunter2@lake.example", "ftp://lake.example", "http://", "http:///x"])
def test_an_address_for_others_has_no_password(tmp_path: Path, url: str) -> None:
    """Every viewer sees it."""
    with pytest.raises(PermanentError, match="public_url"):
        _load(tmp_path, f"api: {{public_url: '{url}'}}")


def test_services_without_a_trigger_have_hudis_own(loaded: Config) -> None:
    """Five commits make a compaction due and one commit a clean, as Hudi's own inline services have it."""
    policies = loaded.tables[0].policies

    assert policies[Service.COMPACTION].trigger == NumCommits(at_least=5)
    assert policies[Service.CLEAN] == Policy(trigger=NumCommits(at_least=1), options=CleanOptions())


def test_a_relative_data_folder_counts_from_the_configuration(loaded: Config, tmp_path: Path) -> None:
    """The store is found again whatever directory the daemon is started in."""
    assert loaded.data_dir == tmp_path / "lakewarden-data"


def test_triggers_are_composed_as_they_are_written(tmp_path: Path) -> None:
    """all_of and any_of nest, and every kind of trigger can be written."""
    written = "{any_of: [{num_commits: 10}, {all_of: [{num_commits_after_last_request: 2}, {time_elapsed: 90m}]}]}"
    text = FIVE_LINES.replace("compaction: {}", f"compaction: {{trigger: {written}}}")

    (table,) = _load(tmp_path, text).tables

    assert table.policies[Service.COMPACTION].trigger == AnyOf(
        triggers=(
            NumCommits(at_least=10),
            AllOf(triggers=(NumCommitsAfterLastRequest(at_least=2), TimeElapsed(at_least=timedelta(minutes=90)))),
        )
    )


def test_a_table_has_the_zone_of_its_workers(tmp_path: Path) -> None:
    """Instants are stamped in the zone of the profile's JVM, so that is the zone the table is served in."""
    text = "spark: {default: {}, east: {timezone: Asia/Shanghai}}\n" + FIVE_LINES + "    spark: east\n"

    (table,) = _load(tmp_path, text).tables

    assert table.zone.key == "Asia/Shanghai"


def test_a_policy_says_whose_plans_are_executed(tmp_path: Path) -> None:
    """Schedule and grace reach the policy."""
    text = FIVE_LINES.replace("compaction: {}", "compaction: {schedule: both, grace: 90s}")

    policy = _load(tmp_path, text).tables[0].policies[Service.COMPACTION]

    assert (policy.schedule, policy.grace) == (Scheduling.BOTH, timedelta(seconds=90))


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "\ufeff"])
def test_an_empty_file_is_no_configuration(tmp_path: Path, text: str) -> None:
    """It may be a file that is just being written. A daemon that obeyed it would let all its tables go."""
    with pytest.raises(PermanentError, match=r"is empty|not just None"):
        _load(tmp_path, text)


# What a YAML text becomes.


_WORDS = st.sampled_from(
    ["a", "b", "name", "22:00", "0123", "yes", "1.5", "true", "~", "", "two words", "*", "[", "x: y"]
)
_LEAVES = _WORDS | st.integers(-(10**6), 10**6) | st.booleans() | st.none() | st.sampled_from([0.5, -1.25])
_TREES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3), max_leaves=12
)


def _places(value: Any, at: KeyPath = ()) -> list[KeyPath]:
    """Return the paths of all keys and entries, in the order of a file that has each on a line of its own."""
    match value:
        case dict():
            return [place for key, one in value.items() for place in ((*at, key), *_places(one, (*at, key)))]
        case list():
            return [
                place for number, one in enumerate(value) for place in ((*at, number), *_places(one, (*at, number)))
            ]
        case _:
            return []


@given(tree=_TREES, indent=st.none() | st.just(1))
def test_values_are_read_as_they_were_written(tree: Any, indent: int | None) -> None:
    """JSON is YAML. A text in quotes stays a text, and true is not 1. Lines change no value."""
    text = json.dumps(tree, indent=indent)
    lines: dict[KeyPath, int] = {}

    assert repr(Values(text).read()) == repr(Values(text, lines).read()) == repr(tree)
    assert list(lines) == _places(tree)
    assert sorted(lines.values()) == list(lines.values())


def test_each_key_has_its_line(tmp_path: Path) -> None:
    """Also a key behind one that stands twice, or that is no text. Those are left out."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text("a: 1\n? [x, {y: 1}]\n: {z: [2]}\na: {b: [3]}\nc:\n  - d: 4\n  - [5,\n     6]\ne: 7\n")
    document = read_document(file)

    assert document.values == {"a": 1, "c": [{"d": 4}, [5, 6]], "e": 7}
    assert [problem.line for problem in document.problems] == [2, 4]
    places: list[KeyPath] = [("a",), ("c",), ("c", 0, "d"), ("c", 1, 1), ("e",), ("c", 0, "missing"), ("missing",)]
    assert [document.line(place) for place in places] == [1, 5, 6, 8, 9, 6, None]


def test_equal_texts_are_held_once() -> None:
    """Thousands of tables have the same keys, and mostly the same words."""
    first, second = Values("- {format: hudi the first, id: a}\n- {format: hudi the first, id: b}\n").read()

    assert first["format"] is second["format"]
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_a_text_with_a_nul_is_refused_with_its_line(tmp_path: Path) -> None:
    """No path, name or option can have one. The operating system would refuse it only when the daemon runs."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text('tables: []\ndaemon: {data_dir: "a\\0b"}\n')
    [problem] = read_document(file).problems
    assert (problem.line, "has a NUL character" in problem.sentence) == (2, True)
