"""The checks of `./dev faults --hostile` find each kind of harm."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faults.hostile.gauges import Measured, breaches
from faults.hostile.lake import SERVICES, unserviced
from faults.hostile.looks import wrong_with
from tests.support.hostile import hostile_avro
from tests.support.hostile.hostile_table import SMALL, Hostile, Looks
from tests.support.hostile.hostile_tables import make_corpus, untouched, whole_corpus


def measured(**other: Any) -> Measured:
    return Measured(**{"probes": 60, "scrapes": 60, "memory_samples": 60, "ages": {"good": 9.0}, **other})


def test_a_quiet_trial_has_no_breach() -> None:
    """Values within their limits are no breach."""
    assert breaches(measured(memory=2**29, log=2**20, livez_slowest=4.9), cadence=5) == []


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ({"livez_failures": ["/livez: TimeoutError timed out"]}, "/livez failed 1 of 60 times"),
        ({"metrics_failures": ["/metrics: HTTP status 500"]}, "/metrics failed 1 of 60 times"),
        ({"ages": {"good": 9.0, "late": 10.1}}, "not observed within twice their cadence of 5 s: late 10.1 s"),
        ({"memory": 2**30 + 1}, "held 1024 MiB"),
        ({"log": 11 * 2**20}, "its log grew to 11.0 MiB"),
        ({"harness_errors": ["_weigh: OSError"]}, "a gauge failed"),
        ({"probes": 0}, "nothing was measured"),
    ],
)
def test_each_harm_that_is_measured_is_told(harm: dict[str, Any], told: str) -> None:
    """Every limit is compared with its measurement."""
    (breach,) = breaches(measured(**harm), cadence=5)
    assert told in breach


def hostile(looks: Looks) -> Hostile:
    return Hostile(name="bad", format="hudi", attacks="us", looks=looks, make=lambda _: None)


def shown(decision: str = "NotDue", reason: str = "", **other: Any) -> dict[str, Any]:
    services = {"clean": {"decision": {"decision": decision, "reason": reason}}}
    empty: dict[str, Any] = {
        "failure": None,
        "faults": [],
        "observed_seconds_ago": 1.0,
        "name": "trips",
    }
    return {**empty, "services": services, **other}


@pytest.mark.parametrize("looks", list(Looks))
def test_a_hostile_table_in_trouble_looks_as_it_must(looks: Looks) -> None:
    """For any attack, a reported error or fault is a right answer."""
    assert wrong_with(hostile(looks), shown(failure="it hangs")) is None
    assert wrong_with(hostile(looks), shown(faults=["it is damaged"])) is None


@pytest.mark.parametrize(
    ("looks", "status", "is_wrong"),
    [
        (Looks.FAILING, shown(), True),
        (Looks.BLOCKED, shown(), True),
        (Looks.BLOCKED, shown("WouldRun", "1 of 1 commits"), True),  # only its mode holds it back
        (Looks.BLOCKED, shown("Blocked", "its plan names files outside of the table"), False),
        (Looks.SHOWN, shown(), False),
        (Looks.SHOWN, shown(observed_seconds_ago=None), True),
        (Looks.SHOWN, None, True),
    ],
)
def test_a_table_that_attacks_and_looks_healthy_is_found(
    looks: Looks, status: dict[str, Any] | None, is_wrong: bool
) -> None:
    """So is one that was never observed."""
    assert (wrong_with(hostile(looks), status) is not None) is is_wrong


@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\r", "\x85", "\u202e", "\u2028", "\ud800"])
def test_what_no_terminal_should_see_is_found_wherever_it_is_shown(letter: str) -> None:
    """This holds for a name, a fault, the name of a service, and everything else in the API."""
    assert wrong_with(hostile(Looks.SHOWN), shown(name=f"a{letter}b")) is not None
    assert wrong_with(hostile(Looks.FAILING), shown(faults=[letter])) is not None


def run(service: str, state: str) -> dict[str, Any]:
    return {"table": "good", "service": service, "state": state, "outcome": "it broke"}


def test_a_good_table_that_is_not_serviced_or_fails_is_found() -> None:
    """An observation alone is no service. A failure beside hostile tables counts as caused by them."""
    done = [run(service, "SUCCEEDED") for service in SERVICES]
    assert unserviced(["good"], done) == []
    assert unserviced(["good"], done[1:]) == [f"good: no {next(iter(SERVICES))} has succeeded"]
    assert "it broke" in unserviced(["good"], [*done, run("clean", "FAILED")])[0]


# The corpus of hostile tables, which is the base of `./dev faults --hostile`.


def test_every_hostile_table_can_be_made_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    """A missing table would attack nothing."""
    made = make_corpus(tmp_path, scale=SMALL)
    assert {one.name for one in made} == {path.name for path in (tmp_path / "tables").iterdir()}
    assert max(Counter(one.name for one in whole_corpus()).values()) == 1
    assert all(one.attacks for one in made)


@pytest.mark.parametrize(
    ("content", "at_most"),
    [
        (hostile_avro.of_itself(5000), 5_200),
        (hostile_avro.of_empty_records(), 130),
        (hostile_avro.of_doubled_names(), 8_000),
        (hostile_avro.of_zeros(3 * 2**30), 4 * 2**20),
    ],
    ids=["itself", "empty records", "doubled names", "zeros"],
)
def test_what_costs_a_reader_everything_weighs_nothing(content: bytes, at_most: int) -> None:
    """No limit on the size of a file catches these."""
    assert len(content) <= at_most


def test_what_was_touched_is_seen(tmp_path: Path) -> None:
    """A changed canary and a missing one are found."""
    make_corpus(tmp_path, scale=SMALL, only=["clean_of_another_table"])
    before = untouched(tmp_path / "foreign")
    assert untouched(tmp_path / "foreign") == before
    canary = next((tmp_path / "foreign" / "p0").glob("keep-*"))
    canary.write_bytes(b"touched")
    assert untouched(tmp_path / "foreign") != before
    canary.unlink()
    assert set(before) - set(untouched(tmp_path / "foreign")) == {f"p0/{canary.name}"}
