"""The executors of a run count as dead only when none of them can write any more."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.application import ClusterApplication
from lakewarden.service.rules.executor_death import ClusterAnswer, ClusterWord, DeathEvidence, judged_death

APPLICATION = ClusterApplication(
    master="spark://master:7077",
    application="app-20261124040607-0000",
    web_ui="http://master:8080",
    executors_end_within=45,
)
LIMIT = timedelta(seconds=45)

_gone_for = st.none() | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1))
_answers = st.none() | st.builds(
    ClusterAnswer, word=st.sampled_from(ClusterWord), reason=st.just("the cluster says so")
)
_evidence = st.builds(
    DeathEvidence, driver_gone_for=_gone_for, application=st.none() | st.just(APPLICATION), cluster=_answers
)


@given(evidence=_evidence)
def test_no_executor_counts_as_dead_while_its_driver_may_live(evidence: DeathEvidence) -> None:
    """Whatever a cluster says: a driver that lives gets other executors."""
    if evidence.driver_gone_for is None:
        assert not judged_death(evidence).proved


@given(evidence=_evidence)
def test_executors_elsewhere_outlive_their_driver_until_the_cluster_or_time_proves_their_end(
    evidence: DeathEvidence,
) -> None:
    """One that a worker of the cluster lists is alive, however much time has passed."""
    word = None if evidence.cluster is None else evidence.cluster.word
    if evidence.driver_gone_for is None or evidence.application is None:
        return
    expected = word is ClusterWord.ENDED or (word is not ClusterWord.AT_WORK and evidence.driver_gone_for >= LIMIT)
    assert judged_death(evidence).proved is expected


@given(evidence=_evidence, more=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1)))
def test_a_proof_by_time_stays_a_proof(evidence: DeathEvidence, more: timedelta) -> None:
    """With the same answer of the cluster."""
    if evidence.driver_gone_for is not None and judged_death(evidence).proved:
        later = DeathEvidence(
            driver_gone_for=evidence.driver_gone_for + more, application=evidence.application, cluster=evidence.cluster
        )
        assert judged_death(later).proved


def test_a_jvm_alone_is_dead_with_its_process() -> None:
    """No time has to pass, and no cluster is asked."""
    proof = judged_death(DeathEvidence(driver_gone_for=timedelta(0)))
    assert (proof.proved, proof.reason) == (True, "its JVM is gone")


@given(evidence=_evidence)
def test_the_reason_names_what_is_waited_for(evidence: DeathEvidence) -> None:
    """An operator learns which application on which master it is."""
    said = judged_death(evidence).reason
    assert said.startswith("its JVM")
    if evidence.driver_gone_for is not None and evidence.application is not None:
        assert "spark://master:7077" in said or "had the 45s" in said
