"""Connections never take the files of the rest of the daemon."""

from __future__ import annotations

from lakewarden.service.http.connections import PortLimits
from lakewarden.service.http.ports import MANAGEMENT_LIMITS, affordable


def test_connections_fit_into_what_may_be_opened() -> None:
    """With 1,024 files as by default; with fewer there are fewer, and always some."""
    for descriptors in (1024, 65_536):
        assert affordable(PortLimits(), descriptors=descriptors).connections == 512
    assert affordable(PortLimits(), descriptors=800).connections + MANAGEMENT_LIMITS.connections < 700
    assert affordable(PortLimits(), descriptors=256).connections == 8
