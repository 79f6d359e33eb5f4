"""`lakewarden notify` shows whether messages arrive."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden.cli import main
from lakewarden.cli.codes import Code
from tests.support.receiver import Receiver, receiving, with_status

Notify = Callable[[], int]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield a receiver that takes everything at first."""
    with receiving() as made:
        yield made


@pytest.fixture
def notify(receiver: Receiver, tmp_path: Path) -> Notify:
    """Return what calls the command with a configuration that names the receiver."""
    (tmp_path / "url").write_text(receiver.url, encoding="utf-8")
    settings = {"notifications": {"url": {"file": str(tmp_path / "url")}}, "daemon": {"data_dir": str(tmp_path)}}
    (tmp_path / "lakewarden.yaml").write_text(json.dumps({**settings, "tables": []}), encoding="utf-8")
    return lambda: main(["notify", "--config", str(tmp_path / "lakewarden.yaml")])


def test_a_message_arrives(receiver: Receiver, notify: Notify) -> None:
    """In the form that Slack takes."""
    assert notify() == Code.DONE
    [body] = receiver.bodies
    assert json.loads(body)["text"].startswith("Lakewarden's messages arrive here.")


def test_a_message_that_is_not_taken_is_an_error(
    receiver: Receiver, notify: Notify, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what the receiver answered, and without the address."""
    receiver.answer = with_status(404)
    assert notify() == Code.USAGE
    told = capsys.readouterr().err
    assert "no message was sent: the receiver answered 404" in told
    assert "secret" not in told
