"""What a run does in its worker at the moment. It is shown to people. Nothing is decided on it. Free of Spark."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.planners.model.instant import RunId, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class StagesDone:
    """The Spark stages of a run that are known so far. Spark tells the stages of a job when the job begins.

    `stage` is the name of a stage at work. `bytes_read` and `bytes_written` are those of the tasks that ended, with
    what they shuffled left out. `core_seconds` is how long tasks occupied a core.
    """

    jobs: int = 0
    stages: int = 0
    stages_done: int = 0
    tasks: int = 0
    tasks_active: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    core_seconds: float = 0.0
    stage: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProgress:
    """What one run does now. `step` is the last step that it was permitted. `bytes` and `file_groups` are the size of
    its plan, if the plan is made and says it.
    """

    run: RunId
    step: Step | None = None
    bytes: int | None = None
    file_groups: int | None = None
    done: StagesDone = StagesDone()
