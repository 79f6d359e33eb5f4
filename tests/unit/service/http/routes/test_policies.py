"""The settings in force, and where each comes from."""

from __future__ import annotations

from pathlib import Path

from lakewarden.service.config.loading import load
from lakewarden.service.http.routes.policies import policies_of
from tests.support.doubles.formats import TEST_FORMATS
from tests.unit.service.http.conftest import ServedDaemon

CONFIGURATION = """
defaults: {poll: 20s}
tables:
  - id: a
    format: fake
    path: /x
    mode: plan
    priority: 7
    contact: sales
    labels: {domain: sales}
    services:
      compaction: {trigger: {num_commits: 9}, options: {}}
      clean: {grace: 1m}
"""


def test_each_value_says_where_it_comes_from(tmp_path: Path) -> None:
    """The entry of the table, the defaults, or what is built in."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(CONFIGURATION)
    [table] = load(file, formats=TEST_FORMATS).tables
    body = policies_of(table)

    def said(of: str, key: str) -> tuple[object, str]:
        found = (body.settings if of == "" else body.services[of])[key]
        return found.value, found.source

    assert said("", "mode") == ("plan", "table")
    assert said("", "poll") == ("20s", "defaults")
    assert said("", "spark") == ("default", "built-in")
    assert said("", "contact") == ("sales", "table")
    assert said("compaction", "trigger") == ("9 commits since the last one", "table")
    assert said("compaction", "priority") == (7, "table")
    assert said("clean", "trigger") == ("1 commit since the last one", "built-in")
    assert said("clean", "grace") == ("1m", "table")


def test_policies_are_shown_over_rest(served: ServedDaemon) -> None:
    """With the options of the format."""
    body = served.api.get("/v1/tables/trips/policies").raise_for_status().json()

    assert set(body["services"]) == {"compaction", "clean"}
    assert body["settings"]["mode"] == {"value": "act", "source": "built-in", "place": None}
