"""The whole data set against the rule that the case broke."""

from __future__ import annotations

from firstfault.case.findings import Scan
from firstfault.report import words
from firstfault.report.document import Block, Note, Pairs, Section, Shares, Table
from firstfault.report.sections import domain
from firstfault.report.view import CaseView

_MOST_SAMPLES = 20


def dataset(found: Scan, view: CaseView | None = None) -> Section:
    total = "" if found.total is None else f" of {found.total:,}"
    blocks: list[Block] = [
        Pairs(
            rows=(
                ("rule", found.rule),
                ("looked at", f"{words.counted(found.scanned, 'sample')}{total}"),
                ("break it", f"{found.breaches:,}"),
            )
        )
    ]
    drawn = domain.of_histogram(
        found.rule, found.histogram, f"Values met in the data set, against the rule: {found.rule}."
    )
    if drawn is not None:
        blocks.append(drawn)
    if found.by_source:
        shares = "; ".join(f"{source}: {bad:,} of {whole:,}" for source, bad, whole in found.by_source)
        blocks.append(Shares(rows=found.by_source, said=f"Samples that break the rule, by source: {shares}."))
    if found.samples:
        rows = tuple(
            (str(each.sample), each.value, each.source or "") for each in found.samples[:_MOST_SAMPLES]
        )
        rest = found.breaches - len(rows)
        caption = "Samples that break the rule" + (
            f" (the first {len(rows)} of {found.breaches:,})" if rest > 0 else ""
        )
        blocks.append(Table(columns=("sample", "value", "source"), rows=rows, code=(0, 1), caption=caption))
    if found.suggestion:
        blocks.append(Note(text=found.suggestion))
    return Section(name="scan", title="The data set", kind="fact", lead=found.summary, blocks=tuple(blocks))
