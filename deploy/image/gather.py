"""Gathers the contents of the image, so that the build needs no network: `python -m deploy.image.gather FOLDER`.

Each file is checked against its checksum in the project: the wheels against the lock file beside this module, the jars
against the formats' `on_spark.py`, tini against the sum below. The image's own build checks all of them a second time.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lakewarden.executors.on_spark import Bundle
from lakewarden.executors.registry import ON_SPARK
from lakewarden.executors.worker import bundles

ROOT = Path(__file__).parents[2]
LOCK = Path(__file__).parent / "requirements.lock"

TINI = "tini=0.19.0-1+b3"
"""Debian's package of tini, for amd64. apt knows its address, and that it is Debian's."""
TINI_SHA256 = "7d1947665fa40e55f218fefad773dc6de66458d0b39eaa292cdcadfc7c996632"


def gather(folder: Path, pip: list[str]) -> None:
    """Fill an empty folder: `wheels` and `requirements.txt`, `jars`, `tini`, and `SHA256SUMS` of the latter two."""
    wheels = folder / "wheels"
    wheel = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels)]
    subprocess.run([*wheel, "--require-hashes", "--requirement", str(LOCK)], check=True)
    subprocess.run([*wheel, str(ROOT)], check=True)
    (folder / "requirements.txt").write_text("\n".join(map(pinned, sorted(wheels.iterdir()))) + "\n")

    (folder / "jars").mkdir()
    sums = [(_tini(folder), "tini")]
    for bundle in _bundles():
        shutil.copy(bundles.bring(bundle), folder / "jars")
        sums.append((bundle.sha256, f"jars/{bundle.file_name}"))
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for digest, name in sums))


def _bundles() -> Iterator[Bundle]:
    """Yield every jar of Spark, of the formats and of the stores."""
    for table_format in ON_SPARK.values():
        yield from filter(None, [table_format.bundle, *table_format.clients.values()])
    for needed in bundles.STORES.values():
        yield from needed


def pinned(wheel: Path) -> str:
    """Return a line of a requirements file that only this very wheel satisfies."""
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version} --hash=sha256:{_sha256(wheel)}"


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _tini(folder: Path) -> str:
    """Put the statically linked tini into the folder, and return its sha256."""
    if shutil.which("apt-get") is None:
        sys.exit("tini comes from Debian's packages: there is no apt-get on this machine")
    download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", TINI]
    if subprocess.run(download, cwd=folder, check=False).returncode != 0:
        subprocess.run(["apt-get", "-qq", "update"], check=True)  # a machine without an update knows no package
        subprocess.run(download, cwd=folder, check=True)
    [package] = folder.glob("tini_*.deb")
    if _sha256(package) != TINI_SHA256:
        sys.exit(f"{package.name} has the sha256 {_sha256(package)}, not {TINI_SHA256}: it is not used")
    subprocess.run(["dpkg-deb", "--extract", package, folder / "debian"], check=True)
    (folder / "debian" / "usr" / "bin" / "tini-static").rename(folder / "tini")
    shutil.rmtree(folder / "debian")
    package.unlink()
    return _sha256(folder / "tini")


if __name__ == "__main__":
    gather(Path(sys.argv[1]), sys.argv[2:])
