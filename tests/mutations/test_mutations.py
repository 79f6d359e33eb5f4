"""The tests are tested: one rule at a time is taken out of the product, and tests fail by an assertion.

A checker that has never failed proves nothing. If a rule moves, its mutation here must move with it. A text that is not
found is an error, so no mutation can stop working without notice.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.mutations.mutated import ROOT, Copy, Mutation

STORE = "tests/contract/store"

MUTATIONS = (
    Mutation(
        name="the SQL store believes old epochs",
        file="lakewarden/service/store/sql/runs.py",
        text="if epoch != row.epoch or (row.epoch and row.epoch != newest):",
        instead="if False:",
        tests=(f"{STORE}/test_owners.py::test_a_late_result_of_an_old_owner_is_rejected[sqlite]",),
    ),
    Mutation(
        name="a replica without the share of a table claims its runs",
        file="lakewarden/service/store/sql/runs.py",
        text="            check_owns(connection, owner, location_of(identity))\n",
        instead="",
        tests=(f"{STORE}/test_owners.py::test_only_the_owner_of_a_table_claims_its_runs[sqlite]",),
    ),
    Mutation(
        name="the runs of the living are adopted",
        file="lakewarden/service/store/sql/runs.py",
        text="                check_dead(connection, before.owner)\n",
        instead="                pass\n",
        tests=(f"{STORE}/test_owners.py::test_the_living_keep_their_runs[sqlite]",),
    ),
    Mutation(
        name="a lease that has ended is brought back",
        file="lakewarden/service/store/sql/replicas.py",
        text="where(_replicas.id == replica, ALIVE).values(lease_until=until)",
        instead="where(_replicas.id == replica).values(lease_until=until)",
        tests=(f"{STORE}/test_replicas.py::test_a_lease_that_has_ended_is_not_brought_back[sqlite]",),
    ),
    Mutation(
        name="a rewrite of all files takes what it has rewritten",
        file="lakewarden/planners/formats/iceberg/rewriting/rewrite_all.py",
        text="and file.snapshot == self.snapshot)",
        instead=")",
        tests=(
            "tests/unit/planners/formats/iceberg/rewriting/test_rewrite_all.py"
            "::test_only_files_from_before_the_request_that_were_not_rewritten_since_are_taken",
        ),
    ),
    Mutation(
        name="a permit does not ask for the lease",
        file="lakewarden/service/rules/permits.py",
        text="if not context.lease_held:",
        instead="if False:",
        tests=("tests/unit/service/rules/test_permits.py::test_what_forbids_any_step_is_refused_at_once",),
    ),
    Mutation(
        name="a permit does not ask whether the lease holds",
        file="lakewarden/service/scheduling/permit_context.py",
        text="lease_held=self.holds_lease(),",
        instead="lease_held=True,",
        tests=("tests/unit/service/wiring/test_at_rest.py",),
    ),
    Mutation(
        name="a lease holds after the moment until which it is safe",
        file="lakewarden/service/ownership/replica_lease.py",
        text="return term is not None and self._clock.monotonic() < term.safe_until",
        instead="return term is not None",
        tests=(
            "tests/unit/service/ownership/test_replica_lease.py::test_it_holds_for_two_thirds_of_the_lease_and_no_longer",
        ),
    ),
    Mutation(
        name="a run is settled while its executor may be at the table",
        file="lakewarden/service/rules/settle.py",
        text="return None if ending.proved else ending.reason",
        instead="return None",
        tests=("tests/unit/service/rules/test_every_case.py::test_no_run_ends_while_its_executor_may_be_at_the_table",),
    ),
    Mutation(
        name="a permit does not ask for the second name of the folder",
        file="lakewarden/service/rules/permits.py",
        text="if context.shared is not None:",
        instead="if False:",
        tests=("tests/unit/service/rules/test_permits.py::test_what_forbids_any_step_is_refused_at_once",),
    ),
    Mutation(
        name="a run begins before the first look at a table in a catalog",
        file="lakewarden/service/scheduling/run_manager.py",
        text="return registered is not None and registered.format in unseen",
        instead="return False",
        tests=(
            "tests/unit/service/wiring/test_one_folder.py::test_two_tables_in_one_folder_are_blocked_by_name_before_any_run",
        ),
    ),
    Mutation(
        name="a step is granted although the folder has a second name",
        file="lakewarden/service/scheduling/permit_context.py",
        text="shared=None if shared is None else shared.reason,",
        instead="shared=None,",
        tests=(
            "tests/unit/service/wiring/test_one_folder.py"
            "::test_a_catalog_that_is_down_holds_no_other_table_back_and_then_both_are_blocked",
        ),
    ),
    Mutation(
        name="what is completed is carried on",
        file="lakewarden/service/rules/permits.py",
        text="if fate is not Fate.PENDING:",
        instead="if False:",
        tests=("tests/unit/service/rules/test_permits.py::test_only_an_instant_that_is_pending_is_carried_on",),
    ),
    Mutation(
        name="a commit does not look at the writes that it fails",
        file="lakewarden/service/rules/permits.py",
        text='    if writes:\n        return f"write',
        instead='    if False:\n        return f"write',
        tests=(
            "tests/unit/service/rules/test_permits.py::test_a_commit_waits_for_the_writes_it_would_fail_and_then_yields",
        ),
    ),
    Mutation(
        name="the clean's guard finds nothing that is needed",
        file="lakewarden/planners/formats/hudi/deletion/guard.py",
        text="if DataFile(partition, file.name) in to_delete:",
        instead="if False:",
        tests=(
            "tests/unit/planners/formats/hudi/deletion/test_guard.py::test_exactly_the_files_that_both_name_overlap",
        ),
    ),
    Mutation(
        name="a plan is taken up although its heartbeat beats",
        file="lakewarden/planners/decide.py",
        text="if plan.guarded_until is not None and now < plan.guarded_until:",
        instead="if False:",
        tests=("tests/unit/planners/test_decide.py",),
    ),
    Mutation(
        name="a commit to a Paimon table replaces the snapshot that is there",
        file="lakewarden/planners/storage/local.py",
        text="os.link(scratch, name,",
        instead="os.replace(scratch, name,",
        tests=("tests/unit/planners/storage/test_new_files.py::test_what_is_there_is_never_replaced",),
    ),
    Mutation(
        name="a Paimon table is compacted beside another program that compacts it",
        file="lakewarden/planners/formats/paimon/backlog/blockers.py",
        text="if snapshot.at > since and _collides(snapshot, facts)",
        instead="if False",
        tests=(
            "tests/unit/planners/formats/paimon/backlog/test_blockers.py"
            "::test_a_table_that_another_program_has_just_compacted_is_left_alone",
        ),
    ),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """Return an unchanged copy in which every named test passes."""
    with Copy(tmp_path_factory.mktemp("mutated")) as copy:
        verdict = copy.judge(sorted({test for mutation in MUTATIONS for test in mutation.tests}))
        assert verdict.passed > 0
        assert (verdict.failed, verdict.other) == (0, [])
        yield copy


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_each_rule_stands_where_its_mutation_looks_for_it(mutation: Mutation) -> None:
    """Once. This needs no copy: a rule that was moved is noticed in a second."""
    assert (ROOT / mutation.file).read_text().count(mutation.text) == 1


@pytest.mark.long
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_rule_that_is_taken_out_is_missed(sound: Copy, mutation: Mutation) -> None:
    """Its tests fail by an assertion, and not because the broken product cannot be loaded."""
    with sound.broken_by(mutation):
        verdict = sound.judge(mutation.tests)
    assert verdict.failed > 0
    assert verdict.other == []
