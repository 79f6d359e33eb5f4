"""The proof of a table over REST and the command line."""

from __future__ import annotations

import pytest

from lakewarden.cli import main
from lakewarden.cli.options import Code
from tests.unit.service.http.conftest import ServedDaemon


def test_the_checks_of_a_table_are_shown_with_their_cures(served: ServedDaemon) -> None:
    """The format has no hooks and no locks here, and a worker is up: the table is proved."""
    proof = served.api.get("/v1/tables/trips/proof").json()
    assert proof["act_when"] == "at_once"
    by_name = {one["check"]: one for one in proof["checks"]}
    assert by_name["lock"]["result"] == "ok"
    assert by_name["alone"]["result"] == "ok"
    assert proof["proved"] == all(one["result"] == "ok" for one in proof["checks"] if one["needed"])
    assert served.api.get("/v1/tables/none/proof").status_code == 404


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
