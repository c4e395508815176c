"""The fix: what was so before, and what is so now."""

from __future__ import annotations

from firstfault.case.findings import Verify
from firstfault.report import words
from firstfault.report.document import Block, Mark, Pairs, Section, Table
from firstfault.report.view import CaseView

_WORDS = {True: "holds", False: "fails", None: "not tested"}
_MARKS: dict[bool | None, Mark] = {True: "good", False: "bad", None: "soft"}


def fix(found: Verify, view: CaseView | None = None) -> Section:
    rows: list[tuple[str, str]] = [("verdict", found.verdict)]
    if found.fed or found.consumed:
        rows.append(("batches", f"{found.fed:,} fed, {found.consumed:,} consumed"))
    if found.skipped:
        rows.append(("skipped", words.listed(found.skipped)))
    blocks: list[Block] = [Pairs(rows=tuple(rows))]
    if found.checks:
        blocks.append(
            Table(
                columns=("check", "before", "after", "result", "remark"),
                rows=tuple(
                    (each.name, each.before, each.after, _WORDS[each.ok], each.reason or "")
                    for each in found.checks
                ),
                marks=tuple(_MARKS[each.ok] for each in found.checks),
            )
        )
    return Section(name="verify", title="The fix", kind="fact", lead=found.summary, blocks=tuple(blocks))
