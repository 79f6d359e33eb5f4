"""The report as one page of HTML. It loads nothing, so it can be sent by mail and opened anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.report.cost import BYTES_A_CORE_SECOND, DELETIONS_A_CORE_SECOND, RUN_CORE_SECONDS
from lakewarden.service.commands.report.lines import LakeReport, ServiceLine, TableLine, UnreadLine, Verdict
from lakewarden.service.commands.report.text import due_of, short, summary
from lakewarden.service.commands.report.totals import LakeTotal, first_steps, total_of
from lakewarden.service.reporting.quantities import size, span

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; --bar: #c0562f; --after: #2f7d6b; --warn: #b07300; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } tr { border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
.soft { color: var(--soft); } .warn { color: var(--warn); }
.figures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); margin: 1.5rem 0; }
.figure { border: 1px solid var(--line); border-radius: .5rem; padding: .8rem 1rem; }
.figure b { display: block; font-size: 1.5rem; }
.bar { background: var(--bar); display: block; height: .7rem; margin: .15rem 0; min-width: 2px; }
.bar.after { background: var(--after); } details summary { cursor: pointer; }
"""
_MOST_STEPS = 50
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page allows itself nothing but its own style, whatever the name of a table holds."""


def page_of(report: LakeReport) -> str:
    """Return the page."""
    return "\n".join(_page(report))


def _page(report: LakeReport) -> Iterator[str]:
    total = total_of(report.tables)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>The state of a lake</title><style>{_STYLE}</style></head><body>"
    yield "<h1>The state of a lake</h1>"
    yield f'<p class="soft">{_shown(", ".join(report.places))}, read by Lakewarden at {_shown(report.at)}</p>'
    yield from (f"<p>{_shown(line)}</p>" for line in summary(total, len(report.unread)))
    yield from _figures(total)
    if report.tables:
        yield from _services(total)
        yield from _tables(report.tables)
        yield from _steps(report)
    yield from _unread(report.unread)
    yield from _assumed()
    yield "</body></html>\n"


def _figures(total: LakeTotal) -> Iterator[str]:
    most = max(total.read_files, 1)
    yield '<div class="figures">'
    yield '<div class="figure">files that queries open'
    yield f"<b>{total.read_files} &rarr; {total.read_files_after}</b>"
    yield f'<span class="bar" style="width:{100 * total.read_files / most:.1f}%"></span>'
    yield f'<span class="bar after" style="width:{100 * max(0, total.read_files_after) / most:.1f}%"></span></div>'
    for heading, value, more in (
        ("could be deleted now", size(total.deletes.bytes), f"{total.deletes.files} files of {size(total.kept.bytes)}"),
        ("small files", str(total.small.files), size(total.small.bytes)),
        ("files to merge at each query", str(total.deltas.files), size(total.deltas.bytes)),
        ("cost of all that is due", span(total.core_seconds), f"of one core, {size(total.reads.bytes)} rewritten"),
    ):
        yield f'<div class="figure">{heading}<b>{_shown(value)}</b><span class="soft">{_shown(more)}</span></div>'
    yield "</div>"


def _services(total: LakeTotal) -> Iterator[str]:
    yield "<h2>What each service would do</h2>"
    yield _head("service", "due on", "not due", "blocked", "rewrites", "into files", "deletes", "core time")
    for one in total.services:
        yield _row(
            one.service,
            str(one.due),
            str(one.not_due),
            str(one.blocked),
            short(one.reads),
            str(one.after) if one.reads.files else "",
            short(one.deletes),
            span(one.core_seconds) if one.core_seconds else "",
        )
    yield "</tbody></table>"


def _tables(lines: Iterable[TableLine]) -> Iterator[str]:
    yield "<h2>Tables, the worst first</h2>"
    yield _head("table", "format", "files", "small", "to merge", "old", "orphans", "versions", "fewer files", "frees")
    for one in lines:
        yield "<tr>"
        yield f"<td>{_details(one)}</td>"
        cells = (
            f"{one.format} {one.version}".strip(),
            short(one.live),
            short(one.small),
            short(one.deltas),
            short(one.old),
            short(one.unknown),
            str(one.versions),
            str(one.fewer),
            size(one.frees),
        )
        yield "".join(f"<td>{_shown(cell)}</td>" for cell in cells)
        yield "</tr>"
    yield "</tbody></table>"


def _details(line: TableLine) -> str:
    items = [f"<li>{_service(one)}</li>" for one in line.services]
    items += [f'<li class="warn">{_shown(note)}</li>' for note in line.left_out]
    said = f'{_shown(line.called)} <span class="soft">{_shown(due_of(line))}</span>'
    where = f'<p class="soft">{_shown(line.location)}</p>'
    return f"<details><summary>{said}</summary>{where}<ul>{''.join(items)}</ul></details>"


def _service(one: ServiceLine) -> str:
    said = f"<b>{_shown(one.service)}</b> {one.verdict.value.replace('_', ' ')}: {_shown(one.reason)}"
    if one.reads.files:
        said += f". It rewrites {short(one.reads)} into {one.after} files"
    if one.deletes.files:
        said += f". It deletes {short(one.deletes)}"
    if one.verdict is Verdict.BLOCKED and one.remedy:
        said += f'. <span class="warn">{_shown(one.remedy)}</span>'
    return said


def _steps(report: LakeReport) -> Iterator[str]:
    steps = first_steps(report.tables)
    if not steps:
        return
    yield "<h2>To be done before blocked services can run</h2><ul>"
    for step in steps[:_MOST_STEPS]:
        remedy = "" if step.remedy is None else f'<br><span class="soft">{_shown(step.remedy.splitlines()[0])}</span>'
        yield f"<li>on {step.tables} tables: {_shown(step.reason)}{remedy}</li>"
    yield "</ul>"


def _unread(lines: tuple[UnreadLine, ...]) -> Iterator[str]:
    if not lines:
        return
    yield "<h2>Could not be read</h2>"
    yield "<table><tbody>"
    for one in lines:
        yield f'<tr><td>{_shown(one.location)}</td><td style="text-align:left">{_shown(one.reason)}</td></tr>'
    yield "</tbody></table>"


def _assumed() -> Iterator[str]:
    yield '<p class="soft">Core time is an estimate: '
    yield f"{RUN_CORE_SECONDS:g} core-seconds for each run (measured), {size(BYTES_A_CORE_SECOND)} rewritten and "
    yield f"{DELETIONS_A_CORE_SECOND} files deleted in each core-second (assumed). "
    yield "A service is due by the triggers of Lakewarden's example configuration. Nothing was changed.</p>"


def _head(*headings: str) -> str:
    return f"<table><thead><tr>{''.join(f'<th>{one}</th>' for one in headings)}</tr></thead><tbody>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{_shown(cell)}</td>' for cell in cells)}</tr>"


def _shown(text: str) -> str:
    """Return a text from outside as text of a page."""
    return escape(printable(text))
