"""A first file is checked before it is written: it never has an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.surveying.contents import WriterDefaults
from lakewarden.service.config.loading import examine
from lakewarden.service.config.problems import Problem, Weight


def sound_file(
    write: Callable[[Mapping[str, WriterDefaults]], str], known: Mapping[str, WriterDefaults], *, file: Path
) -> str:
    """Return the text that `write` makes of the defaults of writers. `file` is where it will be.

    If the text has an error with the options of writers, they are left out, and a remark has the error. Raises
    PermanentError if it still has one.
    """
    text = write(known)
    wrong = _errors_in(text, file)
    if wrong and any(one.options for one in known.values()):
        why = f"the options of the writers are left out. {wrong[0]}"
        text = write({name: _without_options(one, why) for name, one in known.items()})
        wrong = _errors_in(text, file)
    if wrong:
        raise PermanentError(f"no file is written, because it would have an error: {wrong[0]}")
    return text


def _without_options(defaults: WriterDefaults, why: str) -> WriterDefaults:
    return WriterDefaults(remarks=(why,)) if defaults.options else defaults


def _errors_in(text: str, file: Path) -> list[Problem]:
    found = examine(file, to_serve=False, text=text).problems
    return [problem for problem in found if problem.weight is Weight.ERROR]
