"""The page of the reasons, from their catalogue: `python -m docs.reasons` writes `reasons.md` anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

Each decision on a service has a sentence, and a code that stays when the sentence is worded better. The code is in
`lakewarden status`, in `GET /v1/fleet/status`, and in `GET /v1/tables/{table}/explain` beside each decision. The
sentence names the instant, the file or the setting. The remedy beside it says what to do with this table.
[The runbook](runbook.md) has what to do for each symptom.

    lakewarden status
    lakewarden explain sales.orders
"""


def page() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield from _table("Blocked", "The service must not run, even if it is due.", (*BLOCKS, OTHER))
    yield from _table("Not due", "There is nothing to do yet.", WAITS)
    yield from _table("Would run", "The mode of the table lets it only be planned.", (WOULD_RUN,))
    yield from _table("Does not apply, and due", "No operator has anything to do.", (*NOT_APPLICABLE, DUE))


def _table(heading: str, said: str, reasons: Iterable[Reason]) -> Iterator[str]:
    yield f"## {heading}\n\n{said}\n"
    yield "| code | meaning | cure |"
    yield "|---|---|---|"
    yield from (f"| `{one.code}` | {one.meaning} | {one.cure}{_more(one)} |" for one in reasons)
    yield ""


def _more(reason: Reason) -> str:
    section = RUNBOOK.get(reason.code)
    return "" if section is None else f" [Runbook](runbook.md#{section})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
