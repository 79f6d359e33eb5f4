"""The page of the reasons, from their catalogue: `python -m docs.reasons` writes `reasons.md` anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakewarden.service.model.reasons import BLOCKS, DUE, NOT_APPLICABLE, OTHER, WAITS, WOULD_RUN, Reason

PAGE = Path(__file__).parent / "reasons.md"

RUNBOOK = {
    "observed_only": "nothing-runs-on-a-table",
    "quarantined": "a-service-is-in-quarantine",
    "proof_missing": "a-table-is-not-proved",
    "approval_needed": "a-deletion-waits-for-an-approval",
    "backing_off": "a-service-is-in-quarantine",
    "not_observed": "a-table-cannot-be-observed",
    "metadata_damaged": "a-table-cannot-be-observed",
    "run_active": "a-run-seems-to-hang",
    "plan_of_a_writer": "another-program-does-the-work-too",
    "lock_missing": "the-lock-is-not-proved",
    "lock_not_shared": "the-lock-is-not-proved",
    "lock_not_proved": "the-lock-is-not-proved",
    "zone_not_proved": "the-time-zone-is-not-proved",
    "other_plan_first": "another-program-does-the-work-too",
}
"""The sections of the runbook that say more, by the codes of reasons."""

_INTRODUCTION = """# Why a service does not run

<!-- Written by `python -m docs.reasons` from the catalogue. Do not edit. -->

Each decision on a service has a sentence, a remedy, and a code that stays when the sentence is worded better.
`lakewarden explain TABLE`, the page and `GET /v1/tables/{table}/explain` have all three. The sentence names the
instant, the file or the setting. [The runbook](runbook.md) has what to do for each symptom.
"""


def page() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield "## Blocked\n\nThe service must not run, even if it is due.\n"
    yield "| code | meaning | cure |"
    yield "|---|---|---|"
    yield from (f"| `{one.code}` | {one.meaning} | {one.cure}{_more(one)} |" for one in (*BLOCKS, OTHER))
    yield "\n## Everything else\n\nNo operator has to do anything, if nothing is said.\n"
    yield from (_line(one) for one in (*WAITS, WOULD_RUN, *NOT_APPLICABLE, DUE))
    yield ""


def _line(reason: Reason) -> str:
    return f"- `{reason.code}`: {reason.meaning}{'' if reason.cure.startswith('Nothing.') else f' {reason.cure}'}"


def _more(reason: Reason) -> str:
    section = RUNBOOK.get(reason.code)
    return "" if section is None else f" [Runbook](runbook.md#{section})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
