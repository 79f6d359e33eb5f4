"""The configuration and the end of a daemon over REST."""

from __future__ import annotations

from pathlib import Path

from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.printable import REDACTED
from lakewarden.service.config.loading import load
from lakewarden.service.http.api import build_api
from lakewarden.service.http.redacted import ConfigurationPart, Redacted
from tests.support.doubles.formats import TEST_FORMATS
from tests.unit.service.http.conftest import ServedDaemon, serving

CONFIGURATION = """
spark: {default: {conf: {spark.hadoop.fs.s3a.encryption.key: hunter2, spark.x: "https://user:hunter2@host/",
  spark.y: "jdbc:mysql://host/?user=a&password=hunter2"}}}
storage: [{prefix: "s3://bucket", access_key: {env: KEY}, secret_key: {file: /run/key}}]
tables: [{id: a, format: fake, path: /x}]
"""


def test_the_configuration_is_shown_without_secrets(served: ServedDaemon, tmp_path: Path) -> None:
    """The place of a secret stays, a secret does not. What has a default is shown with it."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(CONFIGURATION)
    settings = load(file, formats=TEST_FORMATS).settings
    app = build_api(
        served.composed.status,
        clock=SystemClock(),
        hook_heard=lambda *_: None,
        configuration=ConfigurationPart(shown=Redacted(settings)),
    )

    with serving(app) as client:
        answer = client.get("/v1/config")

    shown = answer.raise_for_status().json()["configuration"]
    assert "hunter2" not in answer.text
    assert shown["spark"]["default"]["conf"]["spark.hadoop.fs.s3a.encryption.key"] == REDACTED
    assert shown["storage"][0]["secret_key"] == {"env": None, "file": "/run/key"}
    assert shown["api"]["port"] == 8080
    assert served.api.get("/v1/config").json() == {"configuration": {}, "refused": []}


def test_a_drained_daemon_ends_as_by_a_signal(served: ServedDaemon) -> None:
    """Once. A second request would end it at once, so it does nothing."""
    first, second = served.api.post("/v1/drain"), served.api.post("/v1/drain")

    assert (first.status_code, first.json(), second.json()) == (202, {"stopping": True}, {"stopping": False})
    assert "the daemon is stopping" in served.management.get("/readyz").json()["missing"]
    [act] = served.store.acts(limit=1)
    assert act.kind == "drained"
