"""Senders: one customer is one sender, and a crowd of them costs no memory."""

from __future__ import annotations

import sys

import pytest

from lakewarden.service.http.guard.senders import Rates, sender_of


@pytest.mark.parametrize(
    ("address", "sender"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_customer_is_one_sender(address: str, sender: str) -> None:
    """Who has a network of IPv6 has 2^64 addresses."""
    assert sender_of(address) == sender


def test_a_sender_that_was_silent_has_saved_up() -> None:
    """Ten seconds' worth, and no more."""
    rates = Rates(per_second=10)

    assert sum(rates.take("one", 0.0) for _ in range(200)) == 100
    assert sum(rates.take("one", 1.0) for _ in range(200)) == 10
    assert sum(rates.take("one", 1e6) for _ in range(200)) == 100


def test_senders_without_number_are_forgotten() -> None:
    """Those who were seen last share what is left; those who were silent are new again."""
    rates = Rates(per_second=1)
    for number in range(50_000):
        rates.take(f"sender {number}", 0.0)

    assert sys.getsizeof(rates._buckets) < 2**20
    assert not rates.take("another one", 0.0)
    assert rates.take("another one", 60.0)
