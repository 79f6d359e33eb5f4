"""The deletion budget: what a run may delete without the approval of an operator. Pure."""

from __future__ import annotations

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.table import DeletionBudget


def excess(plan: Plan, budget: DeletionBudget) -> str | None:
    """Return in words what a plan would delete beyond the budget of its table, or None if it stays within the budget.

    If a plan does not say how many files or partitions it deletes, it deletes none. If the files of the table were not
    counted, a deletion exceeds every budget in percent.
    """
    over = [
        sentence for sentence in (_files(plan, budget), _share(plan, budget), _partitions(plan, budget)) if sentence
    ]
    return f"would delete {' and '.join(over)}" if over else None


def unapproved(plan: Plan, budget: DeletionBudget, *, first: bool, shorter: str | None) -> str | None:
    """Return in words what of a plan needs an approval, or None if nothing does.

    `first`: no clean of the table was ever permitted to delete. `shorter` says what the writers kept that the policy
    does not.
    """
    said = [excess(plan, budget)]
    if plan.files_to_delete:
        said.append(f"would delete {_amount(plan)} in the first clean of the table" if first else None)
        said.append(None if shorter is None else f"would delete {_amount(plan)}, and {shorter}")
    return "; ".join(one for one in said if one is not None) or None


def _amount(plan: Plan) -> str:
    files = plan.files_to_delete or 0
    if plan.files_in_table is None:
        return "1 file" if files == 1 else f"{files:,} files"
    return f"{files:,} of {plan.files_in_table:,} files"


def _files(plan: Plan, budget: DeletionBudget) -> str | None:
    files = plan.files_to_delete or 0
    if budget.files is None or files <= budget.files:
        return None
    return f"{files:,} files, more than the budget of {budget.files:,}"


def _share(plan: Plan, budget: DeletionBudget) -> str | None:
    files = plan.files_to_delete or 0
    if budget.percent is None or files == 0:
        return None
    if plan.files_in_table is None:
        return f"{files:,} files (the budget is {budget.percent:g} %, and the files of the table were not counted)"
    if files * 100 <= budget.percent * plan.files_in_table:
        return None
    return f"{files:,} of {plan.files_in_table:,} files, more than the budget of {budget.percent:g} %"


def _partitions(plan: Plan, budget: DeletionBudget) -> str | None:
    partitions = plan.partitions_to_delete or 0
    if budget.partitions is None or partitions <= budget.partitions:
        return None
    return f"{partitions:,} partitions, more than the budget of {budget.partitions:,}"
