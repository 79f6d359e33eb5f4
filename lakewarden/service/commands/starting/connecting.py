"""`lakewarden check-config --connect`: what a configuration names is tried from this machine."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from lakewarden.service.commands.doctor.doctor import code_for, print_findings
from lakewarden.service.commands.doctor.findings import at_once
from lakewarden.service.commands.doctor.lake import of_lake
from lakewarden.service.commands.doctor.machine import of_database
from lakewarden.service.config.check import REFUSED, check_config
from lakewarden.service.config.loading import load


def check_and_connect(file: Path, *, as_json: bool, out: TextIO) -> int:
    """Print the problems of a configuration, and whether its store, catalogs, locks, stores and tables are reached.

    Return 2 if the configuration has an error. Then nothing is tried. Return 1 if something is not reached.
    """
    said = io.StringIO()
    if check_config(file, as_json=as_json, out=said) == REFUSED:
        print(said.getvalue(), end="", file=out)
        return REFUSED
    config = load(file)
    findings = at_once([of_database(config), *of_lake(config)])
    if as_json:
        checked = json.loads(said.getvalue())
        print(json.dumps({**checked, "connections": [asdict(one) for one in findings]}, indent=2), file=out)
    else:
        print(said.getvalue(), end="", file=out)
        print_findings(findings, out=out)
    return code_for(findings)
