"""A message meets real receivers: willing, slow, failing, hanging and hostile ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.service.config.daemon.notifications import NotificationSettings
from lakewarden.service.reporting.notices.sending import MOST_OPEN, NotSentError, Webhook, allowed
from tests.support.receiver import Receiver, receiving, with_status


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield a receiver that takes everything at first."""
    with receiving() as made:
        yield made


@pytest.fixture
def webhook(receiver: Receiver, tmp_path: Path) -> Callable[..., Webhook]:
    """Return what makes a webhook of the receiver. Its address is in a file. A busy machine has time to answer."""
    (tmp_path / "url").write_text(f"{receiver.url}\n", encoding="utf-8")

    def make(timeout: str = "30s") -> Webhook:
        values = {"url": {"file": str(tmp_path / "url")}, "timeout": timeout}
        return Webhook(NotificationSettings.model_validate(values))

    return make


def test_a_message_arrives_as_it_was_sent(receiver: Receiver, webhook: Callable[..., Webhook]) -> None:
    """At the path of the address, whose last part is the secret."""
    webhook().send(b'{"text": "hello"}')
    assert receiver.bodies == [b'{"text": "hello"}']
    assert receiver.paths == ["/services/T0/secret"]


@pytest.mark.parametrize("status", [302, 307, 400, 404, 500, 503])
def test_every_other_answer_is_a_failure(receiver: Receiver, webhook: Callable[..., Webhook], status: int) -> None:
    """A redirect, too: its address was not judged, and nothing is sent there. No error shows the secret address."""
    with receiving() as other:
        receiver.answer = with_status(status, Location=other.url)
        with pytest.raises(NotSentError, match=f"^the receiver answered {status}$"):
            webhook().send(b"{}")
        assert other.paths == []


def test_a_receiver_may_ask_for_patience(receiver: Receiver, webhook: Callable[..., Webhook]) -> None:
    """Slack does, with 429. A moment in words is not understood, and does no harm."""
    for said, after in (("90", timedelta(seconds=90)), ("Wed, 21 Oct 2015 07:28:00 GMT", None), ("-1", None)):
        receiver.answer = with_status(429, Retry_After=said)
        with pytest.raises(NotSentError, match="429") as refused:
            webhook().send(b"{}")
        assert refused.value.after == after


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_receiver_that_does_not_finish_is_given_up(
    receiver: Receiver, webhook: Callable[..., Webhook], how: str
) -> None:
    """Also one that answers a byte now and then, so that no read of its answer ever times out."""
    receiver.answer = getattr(receiver, how)
    with pytest.raises(NotSentError, match=r"has not answered for 1 s|cannot be reached: TimeoutError"):
        webhook("1s").send(b"{}")


def test_requests_that_hang_do_not_pile_up(receiver: Receiver, webhook: Callable[..., Webhook]) -> None:
    """After a few of them no other one begins, until one has ended."""
    receiver.answer = receiver.drip
    sender = webhook("1s")
    for _ in range(MOST_OPEN):
        with pytest.raises(NotSentError, match="has not answered"):
            sender.send(b"{}")
    with pytest.raises(NotSentError, match=f"^{MOST_OPEN} earlier requests still hang$"):
        sender.send(b"{}")


def test_a_receiver_that_is_not_there_is_a_failure(receiver: Receiver, webhook: Callable[..., Webhook]) -> None:
    """And the error does not show the secret address."""
    receiver.shutdown()
    receiver.server_close()
    with pytest.raises(NotSentError, match=r"^the receiver cannot be reached: \w+$"):
        webhook().send(b"{}")


def test_an_address_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    """The file may come later: it is read for each message."""
    settings = NotificationSettings.model_validate({"url": {"file": str(tmp_path / "none")}})
    with pytest.raises(NotSentError, match="cannot be read"):
        Webhook(settings).send(b"{}")


def _no_name(_host: str) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://hooks.example.com/x", "use https, or set notifications.plain_http"),
        ("ftp://hooks.example.com/x", "no address of the form"),
        ("https://user:word@hooks.example.com/x", "no address of the form"),
        ("https:///x", "no address of the form"),
        ("https://hooks.example.com:999999/x", "is no address"),
        ("https://[::1/x", "is no address"),
        ("https://hooks.example.com/\nx", "no address of the form"),
        ("file:///etc/passwd", "no address of the form"),
    ],
)
def test_messages_do_not_go_to_every_address(url: str, said: str) -> None:
    """The address is read from a secret that another program may write."""
    with pytest.raises(NotSentError, match=said):
        allowed(url, plain_http=False, resolve=_no_name)


@pytest.mark.parametrize("found", ["169.254.169.254", "fe80::1%eth0"])
def test_no_message_goes_to_the_metadata_service_of_a_cloud(found: str) -> None:
    """It hands out credentials. A name that leads there is refused as well."""
    with pytest.raises(NotSentError, match="link-local"):
        allowed("https://hooks.example.com/x", plain_http=True, resolve=lambda _: [found])


def test_http_is_for_this_machine_or_on_demand() -> None:
    """Otherwise names of tables would travel in plain text."""
    for url, plain in (
        ("http://localhost:9/x", False),
        ("http://hooks.example.com/x", True),
        ("https://h.example/x", False),
    ):
        assert allowed(url, plain_http=plain, resolve=_no_name) == url
