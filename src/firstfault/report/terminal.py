"""Cases and findings on a terminal: aligned, readable at 80 columns, without colour, in a log file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import rich.box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from firstfault.case.clean import clean
from firstfault.case.findings import STEPS, Finding
from firstfault.case.store import CaseFolder
from firstfault.errors import UsageError
from firstfault.report import words
from firstfault.report.document import Block, Code, Events, Note, Pairs, Section, Statements, Table
from firstfault.report.sections import document, of_finding
from firstfault.report.view import CaseView, view_of

WIDEST = 100  # columns; longer lines are hard to read, and a log is read in an editor
_LABEL = 14
_STEP = 10
_MOST_ROWS = 16  # of one table; the page has them all
_STYLES = {"good": "green", "bad": "red", "soft": "dim", "": ""}
_KIND_STYLES = {"fact": "green", "inference": "yellow", "open question": "blue"}
_ALWAYS = ("known", "explain", "run", "batch", "memory")


def console(**options: Any) -> Console:
    """A console that neither guesses markup in what it is given nor highlights it.

    Standard output in an encoding that lacks a character shows '?' for it, instead of failing.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    made = Console(markup=False, highlight=False, emoji=False, soft_wrap=False, **options)
    if made.width > WIDEST:
        made.width = WIDEST
    return made


def step_line(name: str, finding: Finding) -> str:
    """One step's result in one line, for ``investigate``."""
    said = clean(finding.summary or finding.not_done or "done")
    spent = [words.duration(finding.seconds)] if finding.seconds >= 1 else []
    spent += [words.counted(finding.trials, "trial")] if finding.trials else []
    return f"{name:<{_STEP}} {said}" + (f" ({', '.join(spent)})" if spent else "")


def show(view: CaseView, out: Console | None = None) -> None:
    """A whole case: what is known, then each finding so far."""
    out = out or console()
    whole = document(view)
    _print(out, Text(clean(whole.title), style="bold red"))
    _print(out, Text(clean(whole.subtitle), style="dim"))
    for section in whole.sections:
        if section.name in view.findings or section.name in _ALWAYS:
            _print(out, _section(section))
        elif section.name == "environment":
            _print(out, _section(msgspec.structs.replace(section, blocks=())))
    if not view.findings:
        out.print(Text("\nNothing has been found out yet. Next: firstfault investigate"))


def show_finding(name: str, finding: Finding, out: Console | None = None) -> None:
    """One finding."""
    _print(out or console(), _section(of_finding(name, finding)))


def _print(out: Console, what: RenderableType) -> None:
    """Print without the blanks that fill lines up to the width: a log is read in an editor."""
    with out.capture() as captured:
        out.print(what)
    for line in captured.get().splitlines():
        out.out(line.rstrip(), highlight=False)


def _section(section: Section) -> RenderableType:
    parts: list[RenderableType] = [_heading(section)]
    if section.lead:
        parts.append(Padding(Text(clean(section.lead)), (0, 0, 0, 2)))
    for number, block in enumerate(section.blocks):
        rendered = _block(block)
        if rendered is not None:
            parts.append(Padding(rendered, (1 if number or isinstance(block, Table) else 0, 0, 0, 2)))
    return Group(*parts)


def _heading(section: Section) -> Text:
    text = Text("\n")
    text.append(section.title, style="bold")
    if section.name != "known":
        text.append(f"  [{section.kind}]", style=_KIND_STYLES[section.kind])
    return text


def _block(block: Block) -> RenderableType | None:
    """A block's form on a terminal; a figure is its sentence."""
    if isinstance(block, Pairs):
        return _pairs(block.rows)
    if isinstance(block, Events):
        return _pairs([(label, text) for label, text, _ in block.rows], [mark for _, _, mark in block.rows])
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Code):
        return (
            None
            if block.folded
            else Group(
                Text(f"{clean(block.name)}:" if block.name else "", style="dim"),
                Text(clean(block.text.rstrip(), lines=True)),
            )
        )
    if isinstance(block, Statements):
        return _statements(block)
    if isinstance(block, Note):
        return Text(clean(block.text))
    return Text(clean(block.said), style="dim")


def _pairs(pairs: Sequence[tuple[str, str]], marks: Sequence[str] = ()) -> Grid:
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True, min_width=_LABEL, max_width=_LABEL + 8)
    grid.add_column(overflow="fold")
    for number, (label, text) in enumerate(pairs):
        style = _STYLES[marks[number]] if marks else ""
        grid.add_row(Text(clean(label)), Text(clean(text), style=style))
    return grid


def _table(table: Table) -> RenderableType:
    grid = Grid(box=rich.box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    kept = [number for number, _ in enumerate(table.columns) if any(row[number] for row in table.rows)]
    for number in kept:
        grid.add_column(table.columns[number], overflow="fold")
    for number, row in enumerate(table.rows[:_MOST_ROWS]):
        style = _STYLES[table.marks[number]] if table.marks else ""
        grid.add_row(*(Text(clean(row[column])) for column in kept), style=style)
    parts: list[RenderableType] = [Text(clean(table.caption), style="dim")] if table.caption else []
    parts.append(grid)
    if (rest := len(table.rows) - _MOST_ROWS) > 0:
        parts.append(Text(f"… and {rest} more; the report has them all", style="dim"))
    return Group(*parts)


def _statements(block: Statements) -> RenderableType:
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(style=_KIND_STYLES[block.kind], no_wrap=True, min_width=_LABEL)
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for number, item in enumerate(block.items or ("none",)):
        grid.add_row(Text(block.kind if number == 0 else ""), "-", Text(clean(item)))
    return grid


# ---- beside one case -------------------------------------------------------------------------------------------------


def list_rows(cases: Sequence[CaseFolder]) -> list[dict[str, Any]]:
    """The cases as plain rows; a damaged one says so."""
    return [_list_row(folder) for folder in cases]


def _list_row(folder: CaseFolder) -> dict[str, Any]:
    try:
        view = view_of(folder.path)
    except UsageError as error:
        return {
            "id": folder.id,
            "failed": f"can't be read: {error}",
            "fault": None,
            "created": None,
            "found": [],
        }
    return {
        "id": folder.id,
        "failed": words.what_failed(view.case),
        "fault": view.explain.fault,
        "created": view.case.created,
        "found": list(view.findings),
    }


def show_list(found: Sequence[dict[str, Any]], out: Console | None = None) -> None:
    """A line a case: id, when, fault, which steps were done, what failed."""
    out = out or console()
    if not found:
        out.print("No cases here. Record one with: firstfault run SCRIPT")
        return
    grid = Grid(box=rich.box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    grid.add_column("case", no_wrap=True)
    grid.add_column("fault", overflow="fold")
    grid.add_column("done", overflow="fold")
    grid.add_column("failed", overflow="fold", ratio=1)
    for row in found:
        done = f"{len(row['found'])} of {len(STEPS)}" if row["created"] is not None else "-"
        grid.add_row(
            Text(clean(row["id"])),
            Text(clean(row["fault"] or "unreadable")),
            Text(done),
            Text(clean(row["failed"])),
        )
    _print(out, grid)


def show_doctor(found: Any, out: Console | None = None) -> None:
    """Versions, each device with whether it computes, and advice."""
    _print(out or console(), _pairs(list(_doctor(found))))


def _doctor(found: Any) -> Iterator[tuple[str, str]]:
    environment = found.environment
    yield "torch", f"{environment.torch or 'not found'} ({words.backend(environment.backend)})"
    yield "Python", f"{environment.python}, {environment.platform}"
    if environment.hip or environment.cuda:
        yield "built for", f"ROCm {environment.hip}" if environment.hip else f"CUDA {environment.cuda}"
    for check in found.devices:
        name = f" on {check.name}" if check.name else ""
        said = f": {check.said}" if check.said else ""
        yield check.device, f"{'computes' if check.ok else 'FAILS'}{name}{said} ({check.seconds:.2f} s)"
    for advice in found.advice:
        yield "advice", advice
