"""The checks of a configuration, one line each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.doctor.findings import CheckFinding, CheckResult, at_once, failed, not_checked, ok
from lakewarden.service.commands.doctor.lake import of_lake
from lakewarden.service.commands.doctor.machine import of_machine
from lakewarden.service.config.loading import examine
from lakewarden.service.config.problems import Weight


def examine_all(file: Path) -> Sequence[CheckFinding]:
    """Return what every check finds. Without a configuration that can be used, the others are not checked."""
    examined = examine(file, to_serve=True)
    errors, warnings = examined.of(Weight.ERROR), examined.of(Weight.WARNING)
    if examined.config is None:
        remedy = "'lakewarden check-config' prints every problem"
        return [failed("configuration", errors[0], remedy), not_checked("everything else", "it needs a configuration")]
    tables = len(examined.config.tables)
    return [
        ok("configuration", f"{file} has {tables} tables and {len(warnings)} warnings"),
        *at_once([*of_machine(examined.config), *of_lake(examined.config)]),
    ]


def doctor(file: Path, *, as_json: bool, out: TextIO) -> int:
    """Print what works from this machine and what does not. Return 1 if a check has failed, and 0 otherwise."""
    findings = examine_all(file)
    if as_json:
        print(json.dumps({"checks": [asdict(one) for one in findings]}, indent=2), file=out)
    else:
        print_findings(findings, out=out)
    return code_for(findings)


def print_findings(findings: Sequence[CheckFinding], *, out: TextIO) -> None:
    """Print one line for each finding, and further ones with the remedy of a failure."""
    width = max(len(printable(one.check)) for one in findings)
    for one in findings:
        print(f"{one.health:<12} {printable(one.check):<{width}}  {printable(one.found)}", file=out)
        if one.remedy is not None:
            for number, line in enumerate(one.remedy.splitlines()):
                print(f"{'':<12} {'':<{width}}  {'  ' if number else '->'} {printable(line)}", file=out)


def code_for(findings: Sequence[CheckFinding]) -> int:
    """Return 1 if a check has failed, and 0 otherwise."""
    return 1 if any(one.health is CheckResult.FAILED for one in findings) else 0
