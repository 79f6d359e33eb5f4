"""The deletion budget: what a run may delete without a person's approval. Pure."""

from __future__ import annotations

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.table import DeletionBudget


def excess(plan: Plan, budget: DeletionBudget) -> str | None:
    """Return, for people, what a plan would delete beyond its table's budget; None where it stays within.

    A plan that does not say how much of a kind it deletes deletes none of that kind. Data files whose share nobody
    has counted are over every budget of percent.
    """
    over = [
        sentence for sentence in (_files(plan, budget), _share(plan, budget), _partitions(plan, budget)) if sentence
    ]
    return f"would delete {' and '.join(over)}" if over else None


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
        return f"{files:,} files of a table whose files were not counted, where the budget is {budget.percent:g} %"
    if files * 100 <= budget.percent * plan.files_in_table:
        return None
    return f"{files:,} of {plan.files_in_table:,} files, more than the budget of {budget.percent:g} %"


def _partitions(plan: Plan, budget: DeletionBudget) -> str | None:
    partitions = plan.partitions_to_delete or 0
    if budget.partitions is None or partitions <= budget.partitions:
        return None
    return f"{partitions:,} partitions, more than the budget of {budget.partitions:,}"
