"""A session worker that says of its cluster what the file `cluster` beside it says: `gone`, or nothing."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from lakewarden.executors.contract import Assignment, Ended, Started, Succeeded, Yielded
from lakewarden.executors.protocol import Begin, Channel, Ready, Unable

WHY = "no executor of 'spark://host:7077' has come within 5m"


def command(cluster: Path) -> tuple[str, ...]:
    """Return the command of a pool with such workers."""
    return (sys.executable, str(Path(__file__)), str(cluster))


def main(cluster: Path, descriptor: int) -> None:
    """Serve until the daemon is gone, or the cluster is."""
    channel = Channel(socket.socket(fileno=descriptor))
    for frame in channel.received():
        match frame:
            case Begin():
                channel.send(Ready(jvm_pid=os.getpid(), slots=2, zone="UTC", file_names="UTF-8"))
            case Assignment():
                gone = cluster.exists()
                if gone:
                    channel.send(Unable(reason=WHY, no_run_is_to_blame=True))
                channel.send(Started(run=frame.run))
                outcome = Yielded(reason=WHY) if gone else Succeeded()
                if frame.run.endswith("holds on"):
                    os._exit(1)
                channel.send(Ended(run=frame.run, outcome=outcome))
                if gone:
                    os._exit(1)
            case _:
                pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
