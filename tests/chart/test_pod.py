"""The places that the pod may write to, and the changes that create a new pod."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tests.support.helm.chart import ROOT, Rendered

pytestmark = pytest.mark.chart

CONTAINERFILE = (ROOT / "Dockerfile").read_text()


def test_it_may_write_to_its_data_its_scratch_and_tmp_and_nowhere_else() -> None:
    """The root file system, the configuration and the secrets are read-only."""
    rendered = Rendered({"secrets": {"files": {"key": {"secret": "lake", "key": "secret"}}}})
    mounts = rendered.container["volumeMounts"]

    assert rendered.container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {mount["mountPath"] for mount in mounts if not mount.get("readOnly")} == {
        "/var/lib/lakewarden",
        "/var/lib/lakewarden/workers",
        "/tmp",
    }


def test_another_configuration_is_another_pod() -> None:
    """The daemon reads its configuration once. Other changes create no new pod."""
    first, same, other = Rendered(), Rendered({"config": {}}), Rendered({"config": {"defaults": {"poll": "5s"}}})

    assert first.pod == same.pod
    assert first.pod["metadata"]["annotations"] != other.pod["metadata"]["annotations"]


def test_it_runs_as_the_user_of_the_image() -> None:
    """The folders of the image belong to that user. Only this user has a name there, and Hadoop asks for it."""
    security = Rendered().pod["spec"]["securityContext"]

    assert f"USER {security['runAsUser']}:{security['runAsGroup']}" in CONTAINERFILE.splitlines()


def test_the_configuration_is_where_the_image_looks_for_it() -> None:
    """`lakewarden` commands in the container find it without an argument."""
    rendered = Rendered()
    [config] = [one["mountPath"] for one in rendered.container["volumeMounts"] if one["name"] == "config"]

    assert rendered.arguments == ["serve", "--config", str(PurePosixPath(config) / "lakewarden.yaml")]
    assert f"LAKEWARDEN_CONFIG={config}/lakewarden.yaml" in CONTAINERFILE
