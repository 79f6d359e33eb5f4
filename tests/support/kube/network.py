"""A network of pods that nothing but this process reaches: a bridge in a namespace of its own, and one for each pod.

No address of the host is used, and nothing listens on the host. A namespace lives as long as the process that holds it.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.kube.container import NEW_NETWORK, join

_PREFIX = "10.244.0"
_HOLD = ("unshare", "--net", "--uts", "--kill-child", "sh", "-c", 'hostname "$0" && echo && exec cat', "{hostname}")


class Sandbox:
    """The network and the host name of a pod. They stay while its containers come and go."""

    def __init__(self, hostname: str, address: str) -> None:
        self.address = address
        command = [part.format(hostname=hostname) for part in _HOLD]
        self._holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"\n", "namespaces of the network need root"
        self.pid = self._holder.pid

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread open its sockets in the sandbox, within the `with` block."""
        own = threading.get_native_id()
        with open(f"/proc/self/task/{own}/ns/net") as host:  # noqa: PTH123 - a namespace and no file
            join(self.pid, "net", NEW_NETWORK)
            try:
                yield
            finally:
                _back(host.fileno())

    def listener(self, port: int) -> socket.socket:
        """Return a socket that listens in the sandbox."""
        with self.inside():
            return socket.create_server((self.address, port))

    def close(self) -> None:
        """Give the namespaces up. They end with their last process."""
        self._holder.kill()
        self._holder.communicate()


def _back(namespace: int) -> None:
    from tests.support.kube.container import call  # noqa: PLC0415

    call("setns", namespace, NEW_NETWORK)


class Network:
    """The bridge, and the sandboxes on it."""

    def __init__(self) -> None:
        self._numbers = itertools.count(2)
        self._changing = threading.Lock()
        self.here = Sandbox("bridge", f"{_PREFIX}.1")
        _in(self.here, "link", "add", "pods", "type", "bridge")
        _in(self.here, "addr", "add", f"{self.here.address}/24", "dev", "pods")
        for device in ("lo", "pods"):
            _in(self.here, "link", "set", device, "up")

    def sandbox(self, hostname: str) -> Sandbox:
        """Make a sandbox with an address of its own."""
        with self._changing:
            number = next(self._numbers)
        assert number < 255, "the network has no more addresses"
        made = Sandbox(hostname, f"{_PREFIX}.{number}")
        outside, inside = f"pod{number}", "eth0"
        _in(self.here, "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", str(made.pid))
        _in(self.here, "link", "set", outside, "master", "pods", "up")
        _in(made, "addr", "add", f"{made.address}/24", "dev", inside)
        for device in ("lo", inside):
            _in(made, "link", "set", device, "up")
        return made

    def close(self) -> None:
        """Remove the bridge."""
        self.here.close()


def _in(sandbox: Sandbox, *arguments: str) -> None:
    command = ["nsenter", f"--net=/proc/{sandbox.pid}/ns/net", "ip", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True)
