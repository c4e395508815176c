"""Where the failure began: the operator, its arguments, the elements at fault, and the operators before it."""

from __future__ import annotations

from firstfault.case.findings import Argument, Locate, Violation
from firstfault.case.schema import Frame
from firstfault.report import words
from firstfault.report.document import Block, Mark, Note, Pairs, Section, Table
from firstfault.report.sections import domain
from firstfault.report.view import CaseView

_MOST_ELEMENTS = 12
_MOST_TRAIL = 24
_MOST_SHAPES = 4


def beginning(found: Locate, view: CaseView | None = None) -> Section:
    blocks: list[Block] = []
    places = [
        (label, frame)
        for label, frame in (
            ("began", found.began),
            ("in forward", found.forward),
            ("made at", found.made_at),
            ("changed at", found.changed_at),
        )
        if frame is not None
    ]
    rows = [("operator", found.operator or "not found")]
    rows += [(label, _line(frame)) for label, frame in places]
    if view is not None and view.case.failure.seen is not None and found.began is not None:
        seen = view.case.failure.seen
        if (seen.file, seen.line) != (found.began.file, found.began.line):
            rows.append(("seen at", f"{_line(seen)} (later than it began)"))
    if found.module:
        rows.append(("module", found.module))
    if found.method:
        rows.append(("method", found.method))
    blocks.append(Pairs(rows=tuple(rows)))
    for violation in found.violations:
        blocks += _violation(violation, found.arguments)
    if found.arguments:
        blocks.append(_arguments(found))
    if found.trail:
        blocks.append(_trail(found))
    if not found.certain:
        late = "The device reported late, and nothing tells whether this operator is the one that failed."
        blocks.insert(0, Note(text=late))
    return Section(
        name="locate",
        title="Where it began",
        kind="fact" if found.certain else "inference",
        lead=found.summary,
        blocks=tuple(blocks),
    )


def _line(frame: Frame) -> str:
    return f"{words.place(frame)}: {frame.code.strip()}" if frame.code else words.place(frame)


def _violation(violation: Violation, arguments: tuple[Argument, ...]) -> list[Block]:
    """The elements at fault, and the argument's values against what is allowed."""
    blocks: list[Block] = []
    if (drawn := domain.of_violation(violation, arguments)) is not None:
        blocks.append(drawn)
    rows: list[tuple[str, ...]] = []
    marks: list[Mark] = []
    for element in violation.elements[:_MOST_ELEMENTS]:
        at = f"{violation.argument}{list(element.index)}"
        source = "not traced" if element.sample is None else f"sample {element.sample}"
        position = "" if element.position is None else str(element.position)
        way = " · ".join(element.changed_by) or ("unchanged" if element.leaf is not None else "")
        rows.append((at, str(element.value), source, position, element.path or element.leaf or "", way))
        marks.append("bad")
    if rows:
        rest = violation.count - len(rows)
        more = f"; {words.counted(rest, 'more element')} not shown" if rest > 0 else ""
        blocks.append(
            Table(
                columns=("element", "value", "from", "position", "in the sample", "changed on the way"),
                rows=tuple(rows),
                marks=tuple(marks),
                code=(0, 1, 4),
                caption=f"Elements at fault: {violation.allowed} is allowed ({violation.contract}){more}",
            )
        )
    if violation.note:
        blocks.append(Note(text=violation.note))
    return blocks


def _arguments(found: Locate) -> Table:
    broken = {violation.argument for violation in found.violations}
    rows = []
    for each in found.arguments:
        what = each.value if each.shape is None else words.tensor(each.dtype, each.shape, each.device)
        extent = ""
        if each.minimum is not None and each.maximum is not None:
            extent = f"{each.minimum:g} to {each.maximum:g}"
        rows.append(
            (
                each.name,
                what or "",
                "" if each.stride is None else str(list(each.stride)),
                extent,
                each.origin or "",
            )
        )
    marks: tuple[Mark, ...] = tuple("bad" if each.name in broken else "" for each in found.arguments)
    return Table(
        columns=("argument", "what", "strides", "values", "comes from"),
        rows=tuple(rows),
        marks=marks,
        code=(0, 1, 2),
        caption=f"Arguments of {found.operator}",
    )


def _trail(found: Locate) -> Table:
    """The operators up to the failing one; what a tracer or profiler calls beside them is left out."""
    trail = [each for each in found.trail if not each.operator.startswith("profiler.")]
    failing = [number for number, each in enumerate(trail) if each.operator == found.operator]
    trail = trail[: failing[-1] + 1] if failing else trail
    rows = []
    for each in trail[-_MOST_TRAIL:]:
        shapes = ", ".join(each.shapes[:_MOST_SHAPES]) + (", …" if len(each.shapes) > _MOST_SHAPES else "")
        line = "" if each.line is None else f"{words.file_name(each.line.file)}:{each.line.line}"
        rows.append((each.operator, shapes, line, each.module or ""))
    marks: list[Mark] = ["" for _ in rows]
    if failing:
        marks[-1] = "bad"
    caption = "Operators up to the failure" + (", the failing one last" if failing else "")
    return Table(
        columns=("operator", "arguments", "line", "module"),
        rows=tuple(rows),
        marks=tuple(marks),
        code=(0, 1),
        caption=caption,
    )
