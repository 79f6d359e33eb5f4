"""A minute of `./dev faults --hostile` without Spark: every hostile table, hanging stores and hostile clients beside
quiet tables. One daemon runs as a user starts it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from bench.polling.quiet_tables import write_quiet_table
from faults.hostile.attack_load import AttackLoad
from faults.hostile.gauges import Gauges, Measured, breaches
from faults.hostile.looks import wrong_with
from faults.hostile.served import Served, left_behind
from faults.hostile.stores import bad_stores
from tests.support.hostile.hostile_table import SMALL, Hostile
from tests.support.hostile.hostile_tables import make_corpus, untouched

_CADENCE_SECONDS = 10.0
_POLL = f"{_CADENCE_SECONDS:g}s"
_SECONDS = 50
_DRAIN_SECONDS = 5


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The findings of the trial."""

    corpus: list[Hostile]
    measured: Measured
    all_looked_at: bool
    wrong: list[str]
    shown: Mapping[str, Mapping[str, Any]]
    exit_code: int | None
    seconds_to_end: float | None
    left: int
    before: Mapping[str, str]
    after: Mapping[str, str]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """Run it once for all tests."""
    home = tmp_path_factory.mktemp("hostile")
    for number in range(10):
        write_quiet_table(home / "good" / f"good-{number}")
    corpus = make_corpus(home, scale=SMALL)
    good: list[Mapping[str, Any]] = [_good(home / "good" / f"good-{number}") for number in range(10)]
    hostile = [{**one.entry(home / "tables"), "mode": "plan", "poll": _POLL} for one in corpus]
    before = untouched(home / "foreign")
    with bad_stores(home / "stores", tables=6, poll=_POLL) as stores:
        good += stores.good
        settings: dict[str, Any] = {"storage": list(stores.settings), "tables": [*good, *stores.hanging, *hostile]}
        settings["spark"] = {"default": {"formats": ["hudi", "iceberg"]}}
        served = Served(home / "daemon", settings, drain_seconds=_DRAIN_SECONDS)
        try:
            _until_up(served)
            with (
                Gauges(served, [str(one["id"]) for one in good]) as gauges,
                AttackLoad(served.api, served.management) as attack_load,
            ):
                time.sleep(_SECONDS)
            exit_code = served.process.exit_code
            shown = served.tables() if exit_code is None else {}
            yield Trial(
                corpus=corpus,
                measured=gauges.measured,
                all_looked_at=gauges.all_looked_at(),
                wrong=attack_load.wrong,
                shown=shown,
                exit_code=exit_code,
                seconds_to_end=served.seconds_to_end(at_most=_DRAIN_SECONDS + 5),
                left=left_behind(home / "daemon"),
                before=before,
                after=untouched(home / "foreign"),
            )
        finally:
            served.process.end(grace=timedelta(seconds=0))


def _until_up(served: Served) -> None:
    deadline = time.monotonic() + 60
    while not served.responds() and served.process.exit_code is None and time.monotonic() < deadline:
        time.sleep(0.1)


def _good(folder: Any) -> Mapping[str, Any]:
    options = {"writers": "none", "timeline_timezone": "UTC"}
    entry = {"id": folder.name, "format": "hudi", "path": str(folder), "mode": "plan", "poll": _POLL}
    return {**entry, "options": options, "services": {"compaction": {}, "clean": {}}}


def test_good_tables_are_looked_at_and_the_probes_answer_beside_everything_hostile(trial: Trial) -> None:
    """Each good table is observed within twice its cadence. `/livez` and `/metrics` answer each time. Memory and log
    stay within their bounds.
    """
    assert trial.exit_code is None
    assert breaches(trial.measured, cadence=_CADENCE_SECONDS) == []
    assert trial.all_looked_at


def test_every_hostile_table_looks_as_it_must(trial: Trial) -> None:
    """It is shown with a fault, or Blocked, or without characters that control a terminal. It is never shown without a
    fault and empty.
    """
    looks = ((one.name, wrong_with(one, trial.shown.get(f"hostile.{one.name}"))) for one in trial.corpus)
    wrong = [f"{name}: {said}" for name, said in looks if said is not None]
    assert not wrong, "\n".join(wrong)


def test_no_client_breaks_a_request_or_is_obeyed_from_another_site(trial: Trial) -> None:
    """No answer is an unexpected error, and no page of another site pauses a table."""
    assert trial.wrong == []


def test_nothing_outside_the_tables_is_touched(trial: Trial) -> None:
    """The test compares the digests and the modification times of everything that the hostile plans name."""
    assert trial.after == trial.before


def test_it_ends_within_its_drain_and_leaves_no_process_behind(trial: Trial) -> None:
    """SIGTERM ends the daemon, whatever a reader or a client does."""
    assert trial.seconds_to_end is not None
    assert trial.left == 0
