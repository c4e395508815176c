"""The fault class: what it rests on, what to check first, and what not to conclude."""

from __future__ import annotations

from firstfault.case.findings import Explain
from firstfault.report import words
from firstfault.report.document import Pairs, Section
from firstfault.report.view import CaseView


def fault(found: Explain, view: CaseView | None = None) -> Section:
    rows = [("first check", found.first_check), ("avoid", found.avoid), ("family", found.family)]
    if found.backend:
        rows.append(("back end", words.backend(found.backend)))
    rows += [("evidence", each) for each in found.evidence]
    if found.also:
        rows.append(("also possible", ", ".join(found.also)))
    return Section(
        name="explain",
        title="What kind of fault",
        kind="inference",
        lead=found.summary,
        blocks=(Pairs(rows=tuple(row for row in rows if row[1])),),
    )
