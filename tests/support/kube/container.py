"""A container without an engine: a command with a root, processes, a host name and a network of its own.

`python container.py SPECIFICATION`, as root and with the standard library alone. Its root has the mounts of the
specification, among them the programs of the host. Its first process does what tini does in the image: it passes
SIGTERM on, and reaps. If this process is killed, or its standard input ends, every process of the container is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

NEW_NETWORK = 0x40000000
NEW_MOUNTS = 0x00020000
NEW_NAMES = 0x04000000  # of the host
NEW_PROCESSES = 0x20000000
_READ_ONLY, _BIND, _AGAIN, _RECURSIVE, _PRIVATE = 1, 4096, 32, 16384, 1 << 18
_DETACH = 2
_DIE_WITH_PARENT = 1
_NO_NEW_PRIVILEGES = 38
_C = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> None:
    """Call a function of the C library. Raises OSError."""
    if getattr(_C, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}{arguments}: {os.strerror(code)}")


def join(pid: int, kind: str, flag: int) -> None:
    """Let this thread join a namespace of a process."""
    namespace = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
    try:
        call("setns", namespace, flag)
    finally:
        os.close(namespace)


def _mount(source: str, target: Path, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, str(target), kind)]
    call("mount", *texts, flags, None if options is None else options.encode())


def _bind(source: str, target: Path, *, read_only: bool) -> None:
    if os.path.isdir(source):  # noqa: PTH112 - before the tests' environment is there
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(source, target, flags=_BIND)
    if read_only:
        _mount(source, target, flags=_BIND | _AGAIN | _READ_ONLY)


def _make_root(spec: dict[str, Any]) -> None:
    """Make the root of the specification the root of this process."""
    _mount("none", Path("/"), flags=_RECURSIVE | _PRIVATE)
    root = Path(spec["root"])
    _mount("tmpfs", root, "tmpfs", options="mode=755")
    for name, target in spec["links"].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    for name, content in spec["files"].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    for name in spec["folders"]:
        (root / name).mkdir(parents=True, exist_ok=True)
        os.chown(root / name, spec["user"], spec["group"])
    for mount in spec["mounts"]:
        _bind(mount["source"], root / mount["target"].lstrip("/"), read_only=mount["read_only"])
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        _bind(f"/dev/{name}", root / "dev" / name, read_only=False)
    (root / "dev" / "shm").mkdir()
    _mount("tmpfs", root / "dev" / "shm", "tmpfs")
    (root / "proc").mkdir()
    _mount("proc", root / "proc", "proc")
    (root / "old").mkdir()
    if spec["read_only_root"]:
        _mount("tmpfs", root, flags=_BIND | _AGAIN | _READ_ONLY)
    os.chdir(root)
    call("pivot_root", b".", b"old")
    os.chdir("/")
    call("umount2", b"/old", _DETACH)


def _become_the_command(spec: dict[str, Any]) -> None:
    os.setsid()
    os.setgroups(spec["groups"])
    os.setgid(spec["group"])
    os.setuid(spec["user"])
    call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.umask(0o022)
    os.chdir(spec["folder"])
    command = spec["command"]
    os.execvpe(command[0], command, spec["environment"])


def _be_the_first(spec: dict[str, Any]) -> int:
    """Start the command in the new namespaces, and reap until it has ended. Return its exit code."""
    call("prctl", _DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    _make_root(spec)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _become_the_command(spec)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)


def _wait_for(first: int) -> None:
    """Return when the container has ended, or end it with this process when the input ends."""
    ended = os.pidfd_open(first)
    while True:
        ready, _, _ = select.select([0, ended], [], [])
        if ended in ready:
            return
        if os.read(0, 4096) == b"":
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run the container until its command has ended, and end with its exit code."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    join(spec["sandbox"], "net", NEW_NETWORK)
    join(spec["sandbox"], "uts", NEW_NAMES)
    call("unshare", NEW_MOUNTS | NEW_PROCESSES)
    first = os.fork()
    if first == 0:
        try:
            code = _be_the_first(spec)
        except OSError as error:
            print(f"the container did not start: {error}", file=sys.stderr, flush=True)
            code = 128
        os._exit(code if code >= 0 else 128 - code)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _wait_for(first)
    _, status = os.waitpid(first, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
