"""A ZooKeeper for the lock of the demo's table. PySpark has the server among its jars."""

from __future__ import annotations

import socket
from datetime import timedelta
from pathlib import Path

from lakewarden.demo.process import Child, free_port
from lakewarden.executors.worker.bundles import spark_jars
from lakewarden.executors.worker.java import java_home

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_GRACE = timedelta(seconds=5)


class ZooKeeper:
    """One standalone server on the loopback interface, with its data and its log in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        settings = directory / "zoo.cfg"
        settings.write_text(
            f"dataDir={directory / 'data'}\n"
            "clientPortAddress=127.0.0.1\n"
            f"clientPort={self.port}\n"
            "tickTime=2000\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\n"
        )
        java = str(java_home() / "bin" / "java")
        command = [java, "-Xmx128m", "-cp", f"{spark_jars()}/*", _MAIN, str(settings)]
        self.process = Child("zookeeper", command, log=directory / "zookeeper.log")

    @property
    def address(self) -> str:
        """`host:port`, the value of `hoodie.write.lock.zookeeper.url`."""
        return f"127.0.0.1:{self.port}"

    def ready(self) -> bool:
        """Whether it answers ZooKeeper's four-letter question `srvr`."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return connection.recv(64).startswith(b"Zookeeper version")
        except OSError:
            return False

    def stop(self) -> None:
        """End it. Returns when it is gone."""
        self.process.end(grace=_GRACE)
