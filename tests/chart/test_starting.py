"""The rendered command serves, and the rendered probes find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.helm.chart import Rendered
from tests.support.helm.local_pod import LocalPod

pytestmark = pytest.mark.chart


def test_every_probe_is_answered_until_the_pod_is_told_to_end(tmp_path: Path) -> None:
    """They are on the management port, and answered soon after the start without a table. After SIGTERM the daemon ends
    in good order.
    """
    rendered = Rendered()
    assert sorted(rendered.probes()) == ["livenessProbe", "readinessProbe", "startupProbe"]
    pod = LocalPod(rendered, tmp_path)
    try:
        pod.until(lambda: all(pod.probe(name) == 200 for name in rendered.probes()))
        assert pod.ask("/v1/tables") == {"items": [], "next": None}

        pod.terminate()
        assert pod.ending() == 0
    finally:
        pod.end()
