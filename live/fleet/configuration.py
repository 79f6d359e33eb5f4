"""The change that the operator makes to the file of `lakewarden init`, as docs/take_over.md says."""

from __future__ import annotations

MOST_LINES = 40
_ACT = """\
    mode: act
    act_when: adopted
    proof_without: [hook, heartbeats]
"""


def edited(text: str, *, port: int, management: int, driver: str) -> str:
    """Return the file with the mode that is allowed, two services, short times for the trial, and the driver of the
    JDBC catalog.
    """
    lines = []
    for line in text.splitlines():
        if line.strip() == "mode: observe":
            lines += _ACT.splitlines()
        elif line.strip().startswith("services:"):
            lines.append("    services: {compaction: , clean: }")
        else:
            lines.append(line)
    lines += [
        "adoption: {plan_for: 20s, between_waves: 30s}",
        f"api: {{port: {port}}}",
        f"management: {{port: {management}}}",
        "spark:",
        f"  default: {{workers: 1, conf: {{spark.driver.extraClassPath: {driver}}}}}",
        "",
    ]
    return "\n".join(lines)
