"""The changes that the operator makes to the file of `lakewarden init`, as docs/take_over.md says."""

from __future__ import annotations

MOST_LINES = 40
_OBSERVE = "    mode: observe"
_ACT = """\
    mode: act
    act_when: proved
    proof_without: [hook, heartbeats]"""


def edited(text: str, *, port: int, management: int, driver: str) -> str:
    """Return the file with two services, the ports of the trial, and the driver of the JDBC catalog."""
    lines = [
        "    services: {compaction: {}, clean: {}}" if line.strip().startswith("services:") else line
        for line in text.splitlines()
    ]
    lines += [
        f"api: {{port: {port}}}",
        f"management: {{port: {management}}}",
        "spark:",
        f"  default: {{workers: 1, conf: {{spark.driver.extraClassPath: {driver}}}}}",
        "",
    ]
    return "\n".join(lines)


def acting(text: str) -> str:
    """Return the file with every table in the mode act, as soon as it is proved."""
    return "\n".join(_ACT if line == _OBSERVE else line for line in text.splitlines()) + "\n"
