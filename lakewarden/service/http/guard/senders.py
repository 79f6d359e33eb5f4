"""Senders: their identity, and the number of requests that each may still send."""

from __future__ import annotations

import math
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from lakewarden.service.config.daemon.http_limits import BURST_SECONDS

_KNOWN = 4096
_OTHERS = "others"
_OF_A_NETWORK = 64


def sender_of(address: str) -> str:
    """Return the identity of a sender: its IPv4 address, or the IPv6 network of 64 bits that one customer has."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> _OF_A_NETWORK << _OF_A_NETWORK)}/{_OF_A_NETWORK}"


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class Rates:
    """A token bucket for each sender. It knows 4096 senders. All further ones share one bucket."""

    def __init__(self, *, per_second: float) -> None:
        self._per_second = per_second
        self._most = per_second * BURST_SECONDS
        self._buckets: dict[str, _Bucket] = {}
        self._forgot_at = -math.inf

    def take(self, sender: str, now: float) -> bool:
        """Whether a sender may send one more request at `now`, in monotonic seconds."""
        bucket = self._buckets.get(sender)
        if bucket is None:
            bucket = self._make(sender, now)
        bucket.tokens = min(self._most, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _make(self, sender: str, now: float) -> _Bucket:
        full = now - BURST_SECONDS  # after so long without a request a bucket is full again
        if len(self._buckets) >= _KNOWN and self._forgot_at <= full:
            self._forgot_at = now
            self._buckets = {name: known for name, known in self._buckets.items() if known.filled_at > full}
        if len(self._buckets) >= _KNOWN:
            return self._buckets.setdefault(_OTHERS, _Bucket(tokens=self._most, filled_at=now))
        bucket = self._buckets[sender] = _Bucket(tokens=self._most, filled_at=now)
        return bucket
