"""The smallest case: the samples that suffice, the stand-alone script, and the conditions that it needs."""

from __future__ import annotations

from firstfault.case.findings import Shrink
from firstfault.report import words
from firstfault.report.document import Block, Code, Mark, Note, Pairs, Section, Table
from firstfault.report.view import CaseView

_MOST_SAMPLES = 16
_MOST_OTHERS = 4
_SUFFICIENT = {
    "culprits": "these alone",
    "culprits_with_others": "these, with others beside them",
    "batch_size": "none in particular: the size of the batch",
    "any": "any one of the batch",
    "history": "the batches before, or the weights that they left",
    "unknown": "not established",
}


def smallest(found: Shrink, view: CaseView | None = None) -> Section:
    samples = words.listed(found.culprits or found.samples, _MOST_SAMPLES)
    rows = [("samples", samples or "not established"), ("it takes", _SUFFICIENT[found.sufficient])]
    if found.repro:
        lines = f", {words.counted(found.lines, 'line')}" if found.lines is not None else ""
        confirmed = (
            f", confirmed {words.counted(found.confirmed, 'time')} in new interpreters"
            if found.confirmed
            else ""
        )
        rows.append(("script", f"{found.repro}{lines}{confirmed}"))
    blocks: list[Block] = [Pairs(rows=tuple(rows))]
    if view is not None and view.repro is not None:
        blocks.append(Code(text=view.repro, language="python", name=found.repro or "repro.py"))
    if found.conditions:
        ordered = sorted(found.conditions, key=lambda each: not each.needed)
        marks: tuple[Mark, ...] = tuple("bad" if each.needed else "" for each in ordered)
        blocks.append(
            Table(
                columns=("condition", "needed", "shown by"),
                rows=tuple(
                    (each.what, "needed" if each.needed else "not needed", each.evidence) for each in ordered
                ),
                marks=marks,
                caption="Conditions, each tested by taking it away",
            )
        )
    if found.others_seen:
        others = "; ".join(found.others_seen[:_MOST_OTHERS])
        blocks.append(Note(text=f"Other failures met on the way, and not followed: {others}."))
    return Section(
        name="shrink", title="The smallest case", kind="fact", lead=found.summary, blocks=tuple(blocks)
    )
