"""What is known for certain, what is inferred, and what is open: the first thing to read, one sentence each.

A fact was recorded or shown by trials. An inference is what the facts point to. An open question is what nobody has
looked at yet, or what could not be told; 'not recorded' is never taken for 'no'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from firstfault.case.findings import Compare, Contrast, Element, Locate, Replay, Scan, Shrink, Verify
from firstfault.report import words
from firstfault.report.document import Section, Statements
from firstfault.report.view import CaseView

_MOST_ELEMENTS = 3
_TELLING = 0.9  # of 1: how well a trait must separate the failing batch to be named here
_SUFFICIENT = {
    "culprits": "{samples} alone {suffice} for the failure.",
    "culprits_with_others": "{samples} {suffice} for the failure, and only together with others.",
    "batch_size": "Only the size of the batch matters, not which samples are in it.",
    "any": "Any one sample of the batch suffices for the failure.",
    "history": "The batch alone does not fail: it takes the batches before it, or the weights that they left.",
    "unknown": "Which samples the failure takes could not be established.",
}


def known(view: CaseView) -> Section:
    """The section that opens a report."""
    return Section(
        name="known",
        title="What is known",
        kind="fact",
        blocks=(
            Statements(kind="fact", items=tuple(_facts(view))),
            Statements(kind="inference", items=tuple(_inferences(view))),
            Statements(kind="open question", items=tuple(_open(view))),
        ),
    )


def _facts(view: CaseView) -> Iterator[str]:
    case = view.case
    failure = case.failure
    late = ", reported late" if words.reported_late(case) else ""
    yield f"Seen at {words.place(failure.seen)}, {words.phase(case)}{late}: {words.what_failed(case)}"
    if failure.swallowed:
        yield "The script handled it and went on."
    at = "" if case.progress.loader is None else "at "
    yield f"It came {at}{words.position(case)}; {words.steps(case.progress.last_completed_step)} before."
    if failure.device_asserts:
        yield f"The device said first: {failure.device_asserts[0].text}"
    if (reading := words.failing_sample(case)) is not None:
        yield f"{reading[0].upper()}{reading[1:]}."
    if failure.consequences:
        yield f"{words.counted(len(failure.consequences), 'later failure')} followed from it."
    found = view.findings
    for name, tell in _TOLD.items():
        finding = found.get(name)
        if finding is not None and finding.not_done is None:
            yield from tell(finding)


def _replayed(found: Replay) -> Iterator[str]:
    if found.outcome != "same":
        yield f"It did not come back in {words.counted(found.runs, 'fresh process')}: {words.outcome(found.outcome)}."
        return
    yield f"It came back in {found.same} of {words.counted(found.runs, 'fresh process')}, from {found.plan or 'its batch'}."
    if found.fed == "values":
        yield "The kept values of the batch were fed, not its sample ids."
    elif found.batch_identical is not None:
        yield (
            "The batch was rebuilt bit for bit from its sample ids."
            if found.batch_identical
            else "The batch that was rebuilt from the sample ids differs from the recorded one."
        )


def _located(found: Locate) -> Iterator[str]:
    if not found.certain:
        return
    if found.operator is not None:
        began = f" at {words.place(found.began)}" if found.began is not None else ""
        yield f"It began in {found.operator}{began}."
    for violation in found.violations:
        for element in violation.elements[:_MOST_ELEMENTS]:
            at = "".join(f"[{number}]" for number in element.index)
            yield f"{violation.argument}{at} is {element.value}; {violation.allowed} is allowed.{_source(element)}"
        if (rest := violation.count - len(violation.elements[:_MOST_ELEMENTS])) > 0:
            yield f"{words.counted(rest, 'more element')} of {violation.argument} break the same rule."


def _source(element: Element) -> str:
    if element.sample is None:
        return ""
    position = f", position {element.position} in the batch" if element.position is not None else ""
    return f" It comes from sample {element.sample}{position}."


def _shrunk(found: Shrink) -> Iterator[str]:
    samples = found.culprits or found.samples
    yield _SUFFICIENT[found.sufficient].format(
        samples=f"{'Sample' if len(samples) == 1 else 'Samples'} {words.listed(samples)}",
        suffice="suffices" if len(samples) == 1 else "suffice",
    )
    if found.repro is not None:
        times = (
            f", confirmed {words.counted(found.confirmed, 'time')} in new interpreters"
            if found.confirmed
            else ""
        )
        yield f"{found.repro} fails for the same reason without the script or its data{times}."


def _compared(found: Compare) -> Iterator[str]:
    passed = [row.change for row in found.rows if row.outcome == "passed"]
    same = [row.change for row in found.rows if row.outcome == "same"]
    if passed:
        yield f"With one thing changed it goes through: {'; '.join(passed)}."
    if same:
        yield f"It stays the same failure with: {'; '.join(same)}."


def _scanned(found: Scan) -> Iterator[str]:
    part = "" if found.total in (None, found.scanned) else f" (of {found.total:,})"
    yield f"{found.breaches:,} of {words.counted(found.scanned, 'sample')} looked at{part} break the rule: {found.rule}."


def _verified(found: Verify) -> Iterator[str]:
    good = sum(check.ok is True for check in found.checks)
    yield f"The fix was checked: {found.verdict} ({good} of {len(found.checks)} checks hold)."


_TOLD: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "replay": _replayed,
    "locate": _located,
    "shrink": _shrunk,
    "compare": _compared,
    "scan": _scanned,
    "verify": _verified,
}


def _inferences(view: CaseView) -> Iterator[str]:
    yield f"The fault is {view.explain.summary}."
    for evidence in view.explain.evidence[:2]:
        yield f"Because: {evidence}"
    locate = view.findings.get("locate")
    if (
        isinstance(locate, Locate)
        and locate.not_done is None
        and not locate.certain
        and locate.operator is not None
    ):
        yield f"It probably began in {locate.operator}: the device reported late, so the operator may be another."
    contrast = view.findings.get("contrast")
    if isinstance(contrast, Contrast) and contrast.not_done is None:
        for difference in contrast.differences[:2]:
            if difference.score >= _TELLING:
                yield f"The batch stands apart by {difference.feature}: {difference.failing}, in the others {difference.others}."
    compare = view.findings.get("compare")
    if isinstance(compare, Compare) and any(
        "CPU" in row.change and row.outcome == "passed" for row in compare.rows
    ):
        yield "That the CPU goes through is a hint, not a fix: it computes in another order and checks other things."


def _open(view: CaseView) -> Iterator[str]:
    case, found = view.case, view.findings
    if not set(found) - {"explain"}:
        yield "Whether it comes back, where it began, and which samples it takes: not tested (firstfault investigate)."
    else:
        yield from _open_after(view)
    if case.progress.loader is not None and (case.batch is None or case.batch.indices is None):
        yield "Which samples were in the batch: not recorded."


def _open_after(view: CaseView) -> Iterator[str]:
    """The questions that the steps so far have left open."""
    case, found = view.case, view.findings
    replay = found.get("replay")
    if isinstance(replay, Replay) and replay.not_done is None:
        if replay.outcome == "same" and replay.same < replay.runs:
            yield f"Why it comes back only {replay.same} times in {replay.runs}: it depends on something that was not restored."
        if (
            case.batch is not None
            and case.failure.fetch is None
            and replay.batch_identical is None
            and replay.fed == "ids"
        ):
            yield "Whether the rebuilt batch equals the recorded one: its values were not recorded."
    for name, question in _QUESTIONS.items():
        finding = found.get(name)
        if finding is None:
            if name == "scan" and view.explain.family not in ("data", "contract"):
                continue
            if name in ("contrast", "scan") and case.progress.loader is None:
                continue
            command = words.next_command(name)
            yield f"{question}: not tested ({command})." if command else f"{question}: not tested."
        elif finding.not_done is not None:
            yield f"{question}: {finding.not_done}."


_QUESTIONS = {
    "replay": "Whether the failure comes back",
    "locate": "Where it began, and which elements are at fault",
    "shrink": "Which samples it takes, and whether it fails on its own",
    "contrast": "What sets the batch apart from the others",
    "compare": "Whether device, precision, compilation or loading matter",
    "scan": "Whether other samples break the same rule",
    "verify": "Whether a fix holds",
}
