"""A session on a standalone cluster ends when its application has ended there: it would wait for executors for ever."""

from __future__ import annotations

import socket
from threading import Thread
from typing import Any

import pytest

from lakewarden.executors.worker.main import _look, gone_from

APP = "app-20261124040607-0000"
ACTIVE = {"status": "ALIVE", "activeapps": [{"id": APP, "state": "WAITING"}], "completedapps": []}
ENDED = {"status": "ALIVE", "activeapps": [{"id": "other"}], "completedapps": [{"id": APP, "state": "FAILED"}]}


def test_an_application_that_the_master_has_ended_is_gone() -> None:
    """As after ten executors that could not start. The reason says where to look."""
    said = gone_from(ENDED, APP)
    assert said == f"its master has ended application {APP} (FAILED): the logs of its executors say why"


def test_an_application_that_a_restarted_master_does_not_know_is_gone() -> None:
    """Its driver is never registered again."""
    said = gone_from({"status": "ALIVE", "activeapps": [], "completedapps": []}, APP)
    assert said == f"its master does not know application {APP}: it was started again"


@pytest.mark.parametrize(
    "master",
    [ACTIVE, {**ENDED, "status": "STANDBY"}, {**ENDED, "status": "RECOVERING"}, {}, {**ENDED, "activeapps": None}],
)
def test_an_application_is_not_gone_while_its_master_knows_it_or_is_not_in_charge(master: dict[str, Any]) -> None:
    """Its runs go on: a master that is away stops no executor."""
    assert gone_from(master, APP) is None


def test_a_master_that_answers_nonsense_is_asked_again() -> None:
    """A thread that ends here would never tell that the application is gone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 not a number\r\n\r\n")

        Thread(target=answer, daemon=True).start()
        assert _look(f"http://127.0.0.1:{listening.getsockname()[1]}/json/", APP) is None
