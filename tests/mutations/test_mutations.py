"""The suite is proved: with one rule taken out of the product at a time, tests fail, by an assertion.

A checker that has never failed proves nothing. Where a rule moves, its mutation here moves with it: a text that is no
longer found fails, so that none can silently stop breaking anything.
"""

from __future__ import annotations

import pytest

from tests.support.mutated import Copy, Mutation

STORE = "tests/contract/store"

MUTATIONS = (
    Mutation(
        name="the SQL store believes old epochs",
        file="lakewarden/service/store/sql/runs.py",
        text="if epoch != row.epoch or (row.epoch and row.epoch != newest):",
        instead="if False:",
        tests=(f"{STORE}/test_adoption.py::test_a_late_result_of_an_old_owner_is_rejected[sqlite]",),
    ),
    Mutation(
        name="the store in memory believes old epochs",
        file="lakewarden/service/store/memory.py",
        text="if epoch != row.epoch or (row.epoch and row.epoch != newest):",
        instead="if False:",
        tests=(f"{STORE}/test_adoption.py::test_a_late_result_of_an_old_owner_is_rejected[memory]",),
    ),
    Mutation(
        name="whoever has not the share of a table claims its runs",
        file="lakewarden/service/store/sql/runs.py",
        text="            check_attends(connection, owner, location_of(identity))\n",
        instead="",
        tests=(f"{STORE}/test_adoption.py::test_only_whoever_attends_a_table_claims_its_runs[sqlite]",),
    ),
    Mutation(
        name="the runs of the living are adopted",
        file="lakewarden/service/store/sql/runs.py",
        text="                check_dead(connection, found.owner)\n",
        instead="                pass\n",
        tests=(f"{STORE}/test_adoption.py::test_the_living_keep_their_runs[sqlite]",),
    ),
    Mutation(
        name="a lease that has ended is brought back",
        file="lakewarden/service/store/memory.py",
        text="            if not self._alive(replica):\n                return False\n",
        instead="",
        tests=(f"{STORE}/test_replicas.py::test_a_lease_that_has_ended_is_not_brought_back[memory]",),
    ),
    Mutation(
        name="a permit does not ask for the lease",
        file="lakewarden/service/rules/permits.py",
        text="if not around.lease_held:",
        instead="if False:",
        tests=("tests/unit/permits/test_permits.py::test_what_forbids_any_step_is_refused_at_once",),
    ),
    Mutation(
        name="a permit does not ask whether the tenure holds",
        file="lakewarden/service/ownership/run_leases.py",
        text="return newest and self._tenure.holds()",
        instead="return newest",
        tests=("tests/unit/leases/test_leases.py::test_no_lease_is_held_without_a_tenure",),
    ),
    Mutation(
        name="a tenure holds after the moment until which it is safe",
        file="lakewarden/service/ownership/replica_lease.py",
        text="return term is not None and self._clock.monotonic() < term.safe_until",
        instead="return term is not None",
        tests=("tests/unit/tenure/test_tenure.py::test_it_holds_for_two_thirds_of_the_lease_and_no_longer",),
    ),
    Mutation(
        name="a run is settled while its executor may be at the table",
        file="lakewarden/service/rules/settle.py",
        text="return None if ending.proved else ending.reason",
        instead="return None",
        tests=("tests/unit/settle/test_every_case.py::test_no_run_ends_while_its_executor_may_be_at_the_table",),
    ),
    Mutation(
        name="a permit does not ask for the claim",
        file="lakewarden/service/rules/permits.py",
        text="if around.claimed is not None:",
        instead="if False:",
        tests=("tests/unit/permits/test_permits.py::test_what_forbids_any_step_is_refused_at_once",),
    ),
    Mutation(
        name="what is completed is carried on",
        file="lakewarden/service/rules/permits.py",
        text="if fate is not Fate.PENDING:",
        instead="if False:",
        tests=("tests/unit/permits/test_permits.py::test_only_an_instant_that_is_pending_is_carried_on",),
    ),
    Mutation(
        name="a commit does not look at the writes that it fails",
        file="lakewarden/service/rules/permits.py",
        text='    if writes:\n        return f"write',
        instead='    if False:\n        return f"write',
        tests=("tests/unit/permits/test_permits.py::test_a_commit_waits_for_the_writes_it_would_fail_and_then_yields",),
    ),
    Mutation(
        name="the clean's guard finds nothing that is needed",
        file="lakewarden/planners/formats/hudi/deletion/guard.py",
        text="if DataFile(partition, file.name) in doomed:",
        instead="if False:",
        tests=("tests/unit/hudi/test_guard.py::test_exactly_the_files_that_both_name_overlap",),
    ),
    Mutation(
        name="a plan is taken up although its heartbeat beats",
        file="lakewarden/planners/decide.py",
        text="if plan.guarded_until is not None and now < plan.guarded_until and plan.time not in standing.freed:",
        instead="if False:",
        tests=("tests/unit/decide/test_decide.py",),
    ),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Return a copy in which nothing is broken, and every test that is to notice something passes."""
    copy = Copy(tmp_path_factory.mktemp("mutated"))
    verdict = copy.judge(sorted({test for mutation in MUTATIONS for test in mutation.tests}))
    assert verdict.passed > 0
    assert (verdict.failed, verdict.other) == (0, [])
    return copy


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_rule_that_is_taken_out_is_missed(sound: Copy, mutation: Mutation) -> None:
    """Its tests fail, by what they assert: not because the broken product cannot be loaded."""
    with sound.broken_by(mutation):
        verdict = sound.judge(mutation.tests)
    assert verdict.failed > 0
    assert verdict.other == []
