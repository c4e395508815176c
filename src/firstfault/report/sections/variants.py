"""One change at a time: which changes keep the failure, and which make it go away."""

from __future__ import annotations

from firstfault.case.findings import Compare
from firstfault.report import words
from firstfault.report.document import Block, Mark, Note, Section, Table
from firstfault.report.view import CaseView

_MARKS: dict[str, Mark] = {"same": "", "other": "", "passed": "good"}


def variants(found: Compare, view: CaseView | None = None) -> Section:
    rows = tuple(
        (
            each.change,
            words.outcome(each.outcome),
            "" if each.distance is None else f"{each.distance:.2g}",
            each.reason or each.signature or "",
        )
        for each in found.rows
    )
    blocks: list[Block] = []
    if rows:
        marks: tuple[Mark, ...] = tuple(_MARKS.get(each.outcome, "soft") for each in found.rows)
        blocks.append(
            Table(
                columns=("one change", "outcome", "distance", "remark"),
                rows=rows,
                marks=marks,
                caption="Distance: the largest relative one from a float64 reference, where values exist",
            )
        )
    if any(each.outcome == "passed" for each in found.rows):
        blocks.append(
            Note(text="A change that makes the failure go away is a hint at its cause. It is not a fix.")
        )
    return Section(
        name="compare", title="One change at a time", kind="fact", lead=found.summary, blocks=tuple(blocks)
    )
