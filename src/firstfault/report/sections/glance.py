"""Five figures for whoever looks for a second: when, how far, whether it comes back, what it takes, whether it is fixed."""

from __future__ import annotations

from firstfault.case.findings import Replay, Shrink, Verify
from firstfault.report import words
from firstfault.report.document import Glance, Mark
from firstfault.report.view import CaseView

_NOT_TESTED = "not tested"
_MARKS: dict[bool | None, Mark] = {True: "good", False: "bad", None: "soft"}


def glance(view: CaseView) -> tuple[Glance, ...]:
    return (_when(view), _progress(view), _returns(view), _takes(view), _fixed(view))


def _when(view: CaseView) -> Glance:
    progress = view.case.progress
    if progress.loader is None:
        return Glance(label="When", value=view.case.failure.phase, remark=words.position(view.case))
    value = "not recorded" if progress.batch is None else f"batch {progress.batch:,}"
    return Glance(
        label="When", value=value, remark=f"pass {progress.pass_}, loader {progress.loader}, counted from 0"
    )


def _progress(view: CaseView) -> Glance:
    done = view.case.progress.last_completed_step
    return Glance(label="Before it", value=words.counted(done, "step"), remark="completed")


def _returns(view: CaseView) -> Glance:
    found = view.findings.get("replay")
    if not isinstance(found, Replay) or found.not_done is not None:
        return Glance(label="Comes back", value=_NOT_TESTED, remark="firstfault replay", mark="soft")
    same = found.outcome == "same"
    remark = f"in fresh processes, from {found.plan}" if same else words.outcome(found.outcome)
    return Glance(
        label="Comes back", value=f"{found.same} of {found.runs}", remark=remark, mark="" if same else "soft"
    )


def _takes(view: CaseView) -> Glance:
    found = view.findings.get("shrink")
    if not isinstance(found, Shrink) or found.not_done is not None:
        return Glance(label="It takes", value=_NOT_TESTED, remark="firstfault shrink", mark="soft")
    samples = found.culprits or found.samples
    value, remark = {
        "culprits": (words.counted(len(samples), "sample"), words.listed(samples, 3)),
        "culprits_with_others": (
            words.counted(len(samples), "sample"),
            f"{words.listed(samples, 3)}, with others",
        ),
        "batch_size": ("the size", "of the batch, not its samples"),
        "any": ("any sample", "of the batch"),
        "history": ("the history", "earlier batches or weights"),
        "unknown": ("not known", "which samples"),
    }[found.sufficient]
    return Glance(label="It takes", value=value, remark=remark)


def _fixed(view: CaseView) -> Glance:
    found = view.findings.get("verify")
    if not isinstance(found, Verify) or found.not_done is not None:
        return Glance(
            label="The fix", value=_NOT_TESTED, remark=words.next_command("verify") or "", mark="soft"
        )
    good = sum(check.ok is True for check in found.checks)
    return Glance(
        label="The fix",
        value=found.verdict,
        remark=f"{good} of {len(found.checks)} checks hold",
        mark=_MARKS[found.fixed],
    )
