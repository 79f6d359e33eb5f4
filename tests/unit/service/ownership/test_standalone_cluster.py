"""A standalone cluster is believed that an application has ended only if master and workers all say so."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from lakewarden.executors.application import ClusterApplication
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.ownership.executor_deaths import end_application, said_by_cluster
from lakewarden.service.rules.executor_death import ClusterWord
from tests.support.serving import Handler, serving

APPLICATION = ClusterApplication(
    master="spark://127.0.0.1:7077",
    application="app-20261124040607-0000",
    web_ui="http://127.0.0.1:8080",
    executors_end_within=45,
)


class Cluster:
    """A master and two workers, as Spark 3.5.9 tells of them. Their answers may be changed or taken away."""

    def __init__(self) -> None:
        self.master: dict[str, Any] = {
            "url": "spark://127.0.0.1:7077",
            "workers": [
                {"id": f"worker-{n}", "webuiaddress": f"http://127.0.0.1:808{n}", "state": "ALIVE"} for n in (1, 2)
            ],
            "activeapps": [],
            "completedapps": [
                {"id": "app-20261124040000-0009", "state": "KILLED"},
                {"id": APPLICATION.application, "state": "FINISHED"},
            ],
            "status": "ALIVE",
        }
        self.answers: dict[str, dict[str, Any]] = {
            "http://127.0.0.1:8080/json/": self.master,
            "http://127.0.0.1:8081/json/": {"id": "worker-1", "executors": [], "finishedexecutors": []},
            "http://127.0.0.1:8082/json/": {"id": "worker-2", "executors": [], "finishedexecutors": []},
        }

    def ask(self, address: str) -> Mapping[str, Any]:
        if address not in self.answers:
            raise TemporaryError(f"{address} does not answer")
        return deepcopy(self.answers[address])

    def word(self, application: ClusterApplication = APPLICATION) -> ClusterWord:
        return said_by_cluster(application, self.ask).word


def test_an_application_without_executors_that_the_master_has_ended_has_ended() -> None:
    """That is how it is a moment after a driver was killed."""
    assert Cluster().word() is ClusterWord.ENDED


def test_an_executor_that_a_worker_lists_is_at_work() -> None:
    """Also after the master has ended the application: its process takes a while to end, or is frozen."""
    cluster = Cluster()
    cluster.answers["http://127.0.0.1:8082/json/"]["executors"] = [{"id": 0, "appid": APPLICATION.application}]
    assert cluster.word() is ClusterWord.AT_WORK
    cluster.master["completedapps"] = []
    assert cluster.word() is ClusterWord.AT_WORK


def test_executors_of_other_applications_do_not_count() -> None:
    """A cluster is shared."""
    cluster = Cluster()
    cluster.answers["http://127.0.0.1:8082/json/"]["executors"] = [{"id": 0, "appid": "app-20261124040607-0001"}]
    assert cluster.word() is ClusterWord.ENDED


DOUBTS = {
    "the master does not answer": lambda c: c.answers.pop("http://127.0.0.1:8080/json/"),
    "the master is a standby": lambda c: c.master.update(status="STANDBY"),
    "the master does not know the application": lambda c: c.master.update(completedapps=[]),
    "the application is active": lambda c: c.master.update(activeapps=[{"id": APPLICATION.application}]),
    "the application is in a state of its own": lambda c: c.master["completedapps"][1].update(state="UNKNOWN"),
    "a worker does not answer": lambda c: c.answers.pop("http://127.0.0.1:8081/json/"),
    "a worker is dead for the master": lambda c: c.master["workers"][0].update(state="DEAD"),
    "a worker has no page": lambda c: c.master["workers"][0].update(webuiaddress=None),
    "a worker has a page of another kind": lambda c: c.master["workers"][0].update(webuiaddress="file:///etc/passwd"),
    "another worker answers": lambda c: c.answers["http://127.0.0.1:8081/json/"].update(id="worker-3"),
    "a worker tells of no executors": lambda c: c.answers["http://127.0.0.1:8081/json/"].pop("executors"),
    "a worker says nonsense": lambda c: c.answers["http://127.0.0.1:8081/json/"].update(executors="none"),
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_each_doubt_leaves_it_unknown(doubt: str) -> None:
    """Unknown is not ended."""
    cluster = Cluster()
    DOUBTS[doubt](cluster)
    assert cluster.word() is ClusterWord.UNKNOWN


def test_a_cluster_without_a_known_page_says_nothing() -> None:
    """Then only time helps, and the setting that is missing is named."""
    said = said_by_cluster(replace(APPLICATION, web_ui=None), Cluster().ask)
    assert (said.word, "master_ui" in said.reason) == (ClusterWord.UNKNOWN, True)


class _Master(Handler):
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.answer(302, headers={"Location": "/"})


def test_the_master_is_asked_to_end_exactly_that_application() -> None:
    """Its answer is a redirect, which is not followed. A master that is away changes nothing."""
    _Master.asked.clear()
    with serving(_Master) as port:
        at = replace(APPLICATION, web_ui=f"http://127.0.0.1:{port}/", application="app-1&id=2")
        end_application(at)
    end_application(at)
    assert _Master.asked == ["/app/kill/?id=app-1%26id%3D2&terminate=true"]
