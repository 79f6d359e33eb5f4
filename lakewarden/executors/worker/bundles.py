"""How the jars that the Spark line needs besides its own come onto this machine: once, from Maven, into a cache."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lakewarden.executors.worker.java import java_home
from lakewarden.executors.worker.lines import LINE, Bundle
from lakewarden.executors.worker.trust import trust_options
from lakewarden.planners.model.errors import PermanentError, TemporaryError


def jars(formats: Iterable[str], stores: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return the cached jars of formats and of stores (by their scheme), for the class path of a session.

    Raises PermanentError for a format without a bundle, and for a jar that was not fetched yet.
    """
    found = tuple(_cache() / bundle.file_name for bundle in _bundles(formats, stores))
    for jar in found:
        if not jar.exists():
            raise PermanentError(f"{jar} is not there: `./dev setup` and `lakewarden serve` fetch it")
    return found


def fetch(
    formats: Iterable[str], say: Callable[[str], None] = print, *, stores: Iterable[str] = ()
) -> tuple[Path, ...]:
    """Bring the jars of formats and stores into the cache where they are missing, and return them all.

    Safe beside other processes doing the same. `say` hears a line for each jar that is fetched. Raises
    TemporaryError where no repository answers, PermanentError where what came is not what was asked for.
    """
    return tuple(bring(bundle, say) for bundle in _bundles(formats, stores))


def bring(bundle: Bundle, say: Callable[[str], None] = print) -> Path:
    """Bring one bundle into the cache if it is missing, and return its jar. Says and raises what `fetch` does."""
    jar = _cache() / bundle.file_name
    if not _complete(jar, bundle):
        with _one_process_at_a_time(jar.parent):
            if not _complete(jar, bundle):
                say(f"fetching {bundle.file_name} ({bundle.size / 1e6:.0f} MB) from Maven, once, into {jar.parent}")
                _fetch(bundle, jar)
    return jar


def spark_jars() -> Path:
    """Return the folder of jars that comes with PySpark, without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PermanentError("PySpark is not installed in this environment: `./dev setup` installs it")
    return Path(spec.origin).parent / "jars"


def _cache() -> Path:
    root = os.environ.get("LAKEWARDEN_CACHE") or Path.home() / ".cache" / "lakewarden"
    return Path(root) / "jars"


def _bundles(formats: Iterable[str], stores: Iterable[str]) -> Iterator[Bundle]:
    """Yield what is needed. A store that the line knows nothing of may be one that Spark's own jars can reach."""
    for name in formats:
        if name not in LINE.bundles:
            known = ", ".join(sorted(LINE.bundles))
            raise PermanentError(f"there is no bundle of the format {name!r} for Spark {LINE.spark}, only of: {known}")
        yield LINE.bundles[name]
    for scheme in stores:
        yield from LINE.stores.get(scheme, ())


def _complete(jar: Path, bundle: Bundle) -> bool:
    return jar.exists() and jar.stat().st_size == bundle.size


@contextmanager
def _one_process_at_a_time(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(bundle: Bundle, jar: Path) -> None:
    """Fetch, check the content, and only then give the jar its name."""
    with tempfile.TemporaryDirectory(dir=jar.parent, prefix=".fetch-") as folder:
        came = _ask_ivy(bundle, Path(folder))
        with came.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if digest != bundle.sha256:
            raise PermanentError(f"{bundle.file_name} came with sha256 {digest}, not {bundle.sha256}: it is not used")
        came.replace(jar)


def _ask_ivy(bundle: Bundle, folder: Path) -> Path:
    """Let Ivy fetch the bundle alone: it ships in PySpark's own jars and knows where Maven's repositories are."""
    ivy = next(spark_jars().glob("ivy-*.jar"), None)
    if ivy is None:
        raise PermanentError(f"there is no Ivy in {spark_jars()}: is this Spark {LINE.spark}?")
    command = [str(java_home() / "bin" / "java"), *trust_options(folder / "trust.jks")]
    command += ["-cp", str(ivy), "org.apache.ivy.Main", "-cache", str(folder / "ivy"), "-notransitive"]
    command += ["-dependency", bundle.group, bundle.artifact, bundle.version, "-confs", "default"]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    came = folder / bundle.file_name
    if ended.returncode != 0 or not came.exists():
        raise TemporaryError(f"could not fetch {bundle.file_name}: {_complaint(ended.stdout + ended.stderr)}")
    return came


def _complaint(told: str) -> str:
    """Return the first line in which Ivy names its trouble."""
    lines = [line.strip(" \t:") for line in told.splitlines()]
    trouble = (line for line in lines if any(mark in line for mark in ("Exception", "ERROR", "not found", "Host")))
    return next(trouble, "Ivy gave no reason")


if __name__ == "__main__":
    try:
        named = sys.argv[1:] or list(LINE.bundles)
        fetch([name for name in named if name not in LINE.stores], stores=LINE.stores.keys() & named)
    except (TemporaryError, PermanentError) as trouble:
        sys.exit(str(trouble))
