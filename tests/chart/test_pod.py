"""What the pod may write to, and when it is made anew."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tests.support.chart import ROOT, Rendered

pytestmark = pytest.mark.chart

CONTAINERFILE = (ROOT / "Dockerfile").read_text()


def test_it_may_write_to_its_data_its_scratch_and_tmp_and_nowhere_else() -> None:
    """The root file system is read-only, the configuration and the secrets too."""
    rendered = Rendered({"secrets": {"files": {"key": {"secret": "lake", "key": "secret"}}}})
    mounts = rendered.container["volumeMounts"]

    assert rendered.container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {mount["mountPath"] for mount in mounts if not mount.get("readOnly")} == {
        "/var/lib/lakewarden",
        "/var/lib/lakewarden/workers",
        "/tmp",
    }


def test_another_configuration_is_another_pod() -> None:
    """The daemon reads its configuration once; what does not change it makes no new pod."""
    first, same, other = Rendered(), Rendered({"config": {}}), Rendered({"config": {"defaults": {"poll": "5s"}}})

    assert first.pod == same.pod
    assert first.pod["metadata"]["annotations"] != other.pod["metadata"]["annotations"]


def test_it_runs_as_the_user_of_the_image() -> None:
    """The folders of the image belong to that user, and no other one has a name there, which Hadoop asks for."""
    security = Rendered().pod["spec"]["securityContext"]

    assert f"USER {security['runAsUser']}:{security['runAsGroup']}" in CONTAINERFILE.splitlines()


def test_the_configuration_is_where_the_image_looks_for_it() -> None:
    """`lakewarden` commands that are run in the container find it without being told."""
    rendered = Rendered()
    [config] = [one["mountPath"] for one in rendered.container["volumeMounts"] if one["name"] == "config"]

    assert rendered.arguments == ["serve", "--config", str(PurePosixPath(config) / "lakewarden.yaml")]
    assert f"LAKEWARDEN_CONFIG={config}/lakewarden.yaml" in CONTAINERFILE
