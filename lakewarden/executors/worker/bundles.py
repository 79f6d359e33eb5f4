"""Brings the further jars of Spark to this machine: once, from Maven, into a cache."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import ssl
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha1
from pathlib import Path

from lakewarden.executors.on_spark import Bundle
from lakewarden.executors.registry import ON_SPARK
from lakewarden.executors.worker.java import java_home
from lakewarden.planners.model.errors import PermanentError, TemporaryError

SPARK = "3.5.9"
"""The Spark that pyproject.toml installs. It was tested with the bundles of the formats, and with these jars."""

STORES: Mapping[str, tuple[Bundle, ...]] = {
    "s3": (  # of the Hadoop in PySpark, with the SDK for which it was built
        Bundle(
            group="org.apache.hadoop",
            artifact="hadoop-aws",
            version="3.3.4",
            sha256="53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
            size=962_685,
        ),
        Bundle(
            group="com.amazonaws",
            artifact="aws-java-sdk-bundle",
            version="1.12.262",
            sha256="873fe7cf495126619997bec21c44de5d992544aea7e632fdc77adb1a0915bae5",
            size=280_645_251,
        ),
    ),
}
"""The jars that Spark's own jars lack for a kind of store, by the scheme of its locations."""

# A trust store for a JVM, with the certificate authorities that Python trusts on this machine.
#
# A JVM has its own list. It does not contain a company's authority that was installed on the machine.

_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # noqa: S105 - Java's own default: a trust store contains nothing secret


def trusted_certificates() -> list[bytes]:
    """Return the certificate authorities that Python trusts, in DER."""
    context = ssl.create_default_context()
    folder = ssl.get_default_verify_paths().capath
    # OpenSSL reads its folder only while it verifies. Its certificates are loaded here.
    for file in Path(folder).glob("*.0") if folder else ():
        try:
            context.load_verify_locations(cafile=file)
        except OSError:  # an unreadable certificate is not trusted
            continue
    return context.get_ca_certs(binary_form=True)


def write_trust_store(path: Path, certificates: list[bytes]) -> None:
    """Write certificates as a Java trust store. Source of the format: `sun.security.provider.JavaKeyStore`."""
    store = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        store += struct.pack(">I", _TRUSTED_CERTIFICATE) + _utf(f"ca{number}") + struct.pack(">Q", 0)
        store += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    salted = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store
    path.write_bytes(store + sha1(salted).digest())  # noqa: S324 - the format requires it


def _utf(text: str) -> bytes:
    """Encode as Java's `DataOutput.writeUTF` does for ASCII."""
    return struct.pack(">H", len(text)) + text.encode("ascii")


def trust_options(path: Path) -> list[str]:
    """Return JVM options for a trust store that is written to `path`. None are needed if Python itself has no
    authority.
    """
    certificates = trusted_certificates()
    if not certificates:
        return []
    write_trust_store(path, certificates)
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def jars(formats: Iterable[str], stores: Iterable[str] = (), needs: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return the cached jars of formats, of stores (by their scheme) and of needs, for the class path of a session.

    Raises PermanentError for a format without a bundle, and for a jar that was not fetched yet.
    """
    paths = tuple(_cache() / bundle.file_name for bundle in _bundles(formats, stores, needs))
    for jar in paths:
        if not jar.exists():
            raise PermanentError(f"{jar} is not there: `./dev setup` and `lakewarden serve` fetch it")
    return paths


def fetch(
    formats: Iterable[str],
    say: Callable[[str], None] = print,
    *,
    stores: Iterable[str] = (),
    needs: Iterable[str] = (),
) -> tuple[Path, ...]:
    """Fetch the missing jars of formats, stores and needs into the cache, and return all of them.

    Other processes may do the same at the same time. `say` is called with a line for each jar that is fetched. Raises
    TemporaryError if no repository answers, and PermanentError if the content is not the expected one.
    """
    return tuple(bring(bundle, say) for bundle in _bundles(formats, stores, needs))


def bring(bundle: Bundle, say: Callable[[str], None] = print) -> Path:
    """Fetch one bundle into the cache if it is missing, and return its jar. Calls `say` and raises as `fetch` does."""
    jar = _cache() / bundle.file_name
    if not _complete(jar, bundle):
        with _one_process_at_a_time(jar.parent):
            if not _complete(jar, bundle):
                say(f"fetching {bundle.file_name} ({bundle.size / 1e6:.0f} MB) from Maven, once, into {jar.parent}")
                _fetch(bundle, jar)
    return jar


def spark_jars() -> Path:
    """Return the folder of PySpark's own jars, without importing PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PermanentError("PySpark is not installed in this environment: `./dev setup` installs it")
    return Path(spec.origin).parent / "jars"


def _cache() -> Path:
    root = os.environ.get("LAKEWARDEN_CACHE") or Path.home() / ".cache" / "lakewarden"
    return Path(root) / "jars"


def _bundles(formats: Iterable[str], stores: Iterable[str], needs: Iterable[str]) -> Iterator[Bundle]:
    """Yield the needed bundles.

    A format may need none. If there are none for a store, Spark's own jars may be able to reach it.
    """
    formats = tuple(formats)
    for name in formats:
        if name not in ON_SPARK:
            raise PermanentError(
                f"no jar bundle of the format {name!r} for Spark {SPARK}, only of: {', '.join(sorted(ON_SPARK))}"
            )
        if (bundle := ON_SPARK[name].bundle) is not None:
            yield bundle
    for scheme in stores:
        yield from STORES.get(scheme, ())
    for need in needs:
        yield from (clients[need] for name in formats if need in (clients := ON_SPARK[name].clients))


def _complete(jar: Path, bundle: Bundle) -> bool:
    return jar.exists() and jar.stat().st_size == bundle.size


@contextmanager
def _one_process_at_a_time(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(bundle: Bundle, jar: Path) -> None:
    """Fetch the jar, check its content, and only then give it its name."""
    with tempfile.TemporaryDirectory(dir=jar.parent, prefix=".fetch-") as folder:
        came = _ask_ivy(bundle, Path(folder))
        with came.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if digest != bundle.sha256:
            raise PermanentError(f"{bundle.file_name} came with sha256 {digest}, not {bundle.sha256}: it is not used")
        came.replace(jar)


def _ask_ivy(bundle: Bundle, folder: Path) -> Path:
    """Let Ivy fetch the bundle alone. Ivy is in PySpark's own jars, and knows the Maven repositories."""
    ivy = next(spark_jars().glob("ivy-*.jar"), None)
    if ivy is None:
        raise PermanentError(f"there is no Ivy in {spark_jars()}: is this Spark {SPARK}?")
    command = [str(java_home() / "bin" / "java"), *trust_options(folder / "trust.jks")]
    command += ["-cp", str(ivy), "org.apache.ivy.Main", "-cache", str(folder / "ivy"), "-notransitive"]
    command += ["-dependency", bundle.group, bundle.artifact, bundle.version, "-confs", "default"]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    came = folder / bundle.file_name
    if ended.returncode != 0 or not came.exists():
        raise TemporaryError(f"could not fetch {bundle.file_name}: {_complaint(ended.stdout + ended.stderr)}")
    return came


def _complaint(output: str) -> str:
    """Return the first line in which Ivy names its error."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    error = (line for line in lines if any(mark in line for mark in ("Exception", "ERROR", "not found", "Host")))
    return next(error, "Ivy gave no reason")


if __name__ == "__main__":
    try:
        named = sys.argv[1:] or list(ON_SPARK)
        fetch([name for name in named if name not in STORES], stores=STORES.keys() & named)
    except (TemporaryError, PermanentError) as error:
        sys.exit(str(error))
