"""What sets the failing batch apart from the others of its run."""

from __future__ import annotations

from firstfault.case.findings import Contrast
from firstfault.report import words
from firstfault.report.document import Block, Dots, Section, Table
from firstfault.report.view import CaseView

_MOST_DIFFERENCES = 12
_MOST_DRAWN = 3


def contrast(found: Contrast, view: CaseView | None = None) -> Section:
    blocks: list[Block] = []
    for each in found.differences[:_MOST_DRAWN]:
        if each.number is not None and each.numbers:
            said = f"{each.feature}: {each.failing} in the failing batch, {each.others} in the others."
            blocks.append(Dots(feature=each.feature, failing=each.number, others=each.numbers, said=said))
    if found.differences:
        rows = tuple(
            (each.feature, each.failing, each.others, f"{each.score:.0%}")
            for each in found.differences[:_MOST_DIFFERENCES]
        )
        blocks.append(
            Table(
                columns=("trait", "failing batch", "other batches", "separates"),
                rows=rows,
                caption=f"Compared with {words.counted(found.compared, 'other batch')}",
            )
        )
    if found.branches:
        lines = tuple(
            (f"{words.file_name(each.file)}:{each.line}", each.code.strip()) for each in found.branches
        )
        blocks.append(
            Table(
                columns=("line", "code"),
                rows=lines,
                code=(0, 1),
                caption="Lines that ran only with this batch",
            )
        )
    return Section(
        name="contrast",
        title="What sets the batch apart",
        kind="inference",
        lead=found.summary,
        blocks=tuple(blocks),
    )
