"""Which addresses belong to this machine alone."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only programs of the same machine reach a server that listens there."""
    if host.lower().rstrip(".") in ("localhost", "localhost.localdomain"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
