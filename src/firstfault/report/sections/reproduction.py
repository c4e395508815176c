"""Whether the failure came back in fresh processes."""

from __future__ import annotations

from firstfault.case.findings import Replay
from firstfault.report import words
from firstfault.report.document import Pairs, Section
from firstfault.report.view import CaseView

_IDENTICAL = {
    True: "rebuilt bit for bit",
    False: "differs from the recorded one",
    None: "not known: its values were not recorded",
}


def reproduction(found: Replay, view: CaseView | None = None) -> Section:
    rate = f"{found.same} of {found.runs} failed in the same way"
    if found.outcome == "same" and found.same < found.runs:
        rate += " (flaky)"
    rows = [
        ("outcome", words.outcome(found.outcome)),
        ("runs", rate),
        ("plan", found.plan or "none worked"),
        ("batch", _IDENTICAL[found.batch_identical] if found.fed == "ids" else "the kept values were fed"),
        ("signature", found.signature),
    ]
    if found.other_signature:
        rows.append(("instead", found.other_signature))
    if len(found.plans_tried) > 1:
        rows.append(("plans tried", ", ".join(found.plans_tried)))
    if found.reproduced_in_new_interpreter is not None:
        rows.append(
            (
                "new interpreter",
                "the same failure" if found.reproduced_in_new_interpreter else "not the same failure",
            )
        )
    return Section(
        name="replay",
        title="Getting it back",
        kind="fact",
        lead=found.summary,
        blocks=(Pairs(rows=tuple(row for row in rows if row[1])),),
    )
