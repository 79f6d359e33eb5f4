"""Hostile clients against both ports, one attack after another, for the whole trial."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType

_MANAGEMENT = ("silent", "slow_heads", "long_head", "nonsense", "silent")
"""The attacks that make sense on a port that takes no bodies."""

_API = (
    *("silent", "slow_bodies", "stalled_uploads", "lone_surrogate", "huge_base_path", "long_url", "cross_origin"),
    *("rebound", "length_and_chunks", "bare_line_feeds", "tiny_chunks", "slow_heads", "deaf_readers", "flood"),
)
_MANY = {"silent": 1100, "slow_heads": 600, "slow_bodies": 600, "stalled_uploads": 120, "deaf_readers": 20, "flood": 4}
_SOME = 20
_BREATH_SECONDS = 1.0
_SHORT_SECONDS = 8
_LONG_SECONDS = 25
_GRACE_SECONDS = 30


@dataclass
class AttackLoad:
    """Two threads of attacks, one for each port. `attacks` counts the attacks by name; `wrong` has the answers that
    should not have come.
    """

    api: int
    management: int
    enabled: bool = True
    attacks: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._attack_port, args=(port, attacks), daemon=True)
            for port, attacks in ((self.api, _API), (self.management, _MANAGEMENT))
            if self.enabled
        ]

    def __enter__(self) -> AttackLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _attack_port(self, port: int, attacks: tuple[str, ...]) -> None:
        number = 0
        while not self._over.is_set():
            self._attack(attacks[number % len(attacks)], port)
            number += 1
            self._over.wait(_BREATH_SECONDS)

    def _attack(self, attack: str, port: int) -> None:
        many = attack in _MANY
        seconds = _LONG_SECONDS if many else _SHORT_SECONDS
        command = [sys.executable, "-m", "tests.support.hostile.hostile_clients", attack, "--port", str(port)]
        command += ["--count", str(_MANY.get(attack, _SOME)), "--seconds", str(seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as attacker:
            waited = 0.0
            while attacker.poll() is None and not self._over.is_set() and waited < seconds + _GRACE_SECONDS:
                self._over.wait(0.2)
                waited += 0.2
            if attacker.poll() is None:
                attacker.kill()
                return
            told, _ = attacker.communicate()
        self._count(attack, json.loads(told) if told.startswith("{") else {})

    def _count(self, attack: str, told: dict[str, object]) -> None:
        answers = told.get("answers")
        statuses = answers if isinstance(answers, dict) else {}
        self.attacks[attack] += 1
        if any(str(status).startswith("5") and str(status) != "503" for status in statuses):
            self.wrong.append(f"{attack} was answered {statuses}")
        if attack in ("cross_origin", "rebound") and any(str(status).startswith("2") for status in statuses):
            self.wrong.append(f"{attack} was obeyed: {statuses}")
