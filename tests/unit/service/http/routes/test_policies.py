"""The settings in force, and where each comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.cli import main
from lakewarden.cli.exit_codes import Code
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


# The proof of a table over REST and the command line.


def test_the_checks_of_a_table_are_shown_with_their_cures(served: ServedDaemon) -> None:
    """The format has no hooks and no locks here, and a worker is up: the table is proved."""
    proof = served.api.get("/v1/tables/trips/proof").json()
    assert proof["act_when"] == "at_once"
    by_name = {one["check"]: one for one in proof["checks"]}
    assert by_name["lock"]["result"] == "ok"
    assert by_name["alone"]["result"] == "ok"
    assert proof["proved"] == all(one["result"] == "ok" for one in proof["checks"] if one["needed"])


def test_the_command_prints_each_check(served: ServedDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code says whether the table is proved."""
    proved = served.api.get("/v1/tables/trips/proof").json()["proved"]
    code = main(["doctor", "trips", "--url", str(served.api.base_url)])
    assert code == (Code.DONE if proved else Code.NO)
    said = " ".join(capsys.readouterr().out.split())
    assert "ok alone no other program has completed a service of it" in said


def test_workers_that_are_replaced_take_no_proof_away(served: ServedDaemon) -> None:
    """A worker is replaced after so many runs. Hundreds of tables would lose their proof meanwhile."""

    def workers() -> str:
        checks = served.api.get("/v1/tables/trips/proof").json()["checks"]
        return next(str(one["result"]) for one in checks if one["check"] == "workers")

    assert workers() == "ok"
    served.pool.close()  # no slot is left
    assert served.pool.capacity().slots == 0
    assert workers() == "ok"
