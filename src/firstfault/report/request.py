"""A request for help: short, complete, nothing private, in the form that those who are asked want.

PyTorch's form: .github/ISSUE_TEMPLATE/bug-report.yml at 001fe16 (headings 'Describe the bug' and 'Versions', a program that
needs nothing to be downloaded, the whole traceback, the output of ``torch.utils.collect_env``).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Literal

from firstfault.case.findings import Compare, Locate, Replay, Shrink
from firstfault.case.known_secrets import Known
from firstfault.case.redaction import Redactor
from firstfault.report import words
from firstfault.report.markdown import coded, fenced, text
from firstfault.report.redacted import redacted, review
from firstfault.report.sections.run import traceback
from firstfault.report.view import CaseView

Venue = Literal["pytorch", "forum", "github"]

_OWN = ("data", "contract")  # families in which the user's data or call is at fault, not torch
_COLLECT_SECONDS = 60.0  # collect_env asks pip, the driver and the compiler; 3 s as a rule
_NOISE = ("Vulnerability ", "Flags:", "BogoMIPS:")  # of collect_env: long, and never asked for
_MOST_LINES = 40  # of a traceback
_MOST_ROWS = 8
_TITLE = 110  # characters; trackers cut longer ones


def request(
    view: CaseView,
    venue: Venue,
    show_private: bool = False,
    *,
    known: Known | None = None,
    versions: str | None = None,
) -> str:
    """The request as Markdown, its review list at the end as a comment that no site shows.

    ``known`` and ``versions`` (the output of collect_env) are looked up when not given.
    """
    public, redactor = (view, Redactor()) if show_private else redacted(view, known)
    versions = _versions(public, versions) if venue != "forum" else _short_versions(public)
    if not show_private:
        versions = redactor.text(versions)
    parts = [f"Title: {coded(title(public))}"]
    if venue == "pytorch" and public.explain.family in _OWN:
        parts.append(_not_for_the_tracker(public))
    parts += _body(public, venue, versions)
    parts.append(_comment(redactor, show_private))
    return "\n\n".join(part for part in parts if part) + "\n"


def title(view: CaseView) -> str:
    """``'aten.nll_loss_forward: IndexError: Target 4 is out of bounds. (CPU, torch 2.13.0)'``."""
    locate = view.findings.get("locate")
    operator = f"{locate.operator}: " if isinstance(locate, Locate) and locate.operator else ""
    environment = view.case.environment
    where = f" ({words.backend(environment.backend)}, torch {environment.torch or 'not recorded'})"
    what = operator + words.what_failed(view.case)
    room = _TITLE - len(where)
    return (what if len(what) <= room else what[: room - 1].rstrip() + "…") + where


def _body(view: CaseView, venue: Venue, versions: str) -> list[str]:
    said = [_symptom(view)]
    program = fenced(view.repro, "python") if view.repro is not None else ""
    how = (
        _how_to_reproduce(view)
        if program
        else "There is no stand-alone program yet; firstfault shrink makes one."
    )
    observed = fenced(_observed(view), "text")
    expected = _expected(view)
    known = "\n".join(f"- {text(each)}" for each in _known(view))
    tried = _tried(view)
    if venue == "pytorch":
        return [
            "### 🐛 Describe the bug",
            *said,
            program,
            how,
            "Observed:",
            observed,
            f"Expected: {expected}",
            known,
            tried,
            "### Versions",
            fenced(versions),
        ]
    if venue == "github":
        return [
            "### Describe the bug",
            *said,
            known,
            "### To reproduce",
            program,
            how,
            observed,
            "### Expected behaviour",
            expected,
            "### What was tried",
            tried or "Nothing yet.",
            "### Environment",
            fenced(versions),
        ]
    return [*said, known, program, how, observed, f"Expected: {expected}", tried, fenced(versions)]


def _symptom(view: CaseView) -> str:
    """What happens, in a sentence or two."""
    case = view.case
    after = (
        f" after {words.counted(case.progress.last_completed_step, 'completed step')}"
        if case.progress.last_completed_step
        else ""
    )
    sentence = f"A run failed {words.phase(case)}{after}: {text(words.what_failed(case).rstrip('.'))}."
    replay = view.findings.get("replay")
    if isinstance(replay, Replay) and replay.not_done is None and replay.outcome == "same":
        sentence += f"\n\nThe failing batch alone fails in the same way in {replay.same} of {words.counted(replay.runs, 'fresh process')}."
    if words.reported_late(case):
        sentence += " The device reports late, so the line of the traceback is not where it began."
    return sentence


def _how_to_reproduce(view: CaseView) -> str:
    shrink = view.findings.get("shrink")
    times = (
        f" It failed {shrink.confirmed} of {shrink.confirmed} times on its own."
        if isinstance(shrink, Shrink) and shrink.confirmed
        else ""
    )
    return f"It needs nothing but torch, and exits with 1 while the failure is there, with 0 when it is gone.{times}"


def _observed(view: CaseView) -> str:
    """What the device said first, then the traceback; of a long one the first and the last lines."""
    lines = [each.text for each in view.case.failure.device_asserts[:1]] + traceback(view).splitlines()
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        lines = [*lines[:half], f"… {len(lines) - 2 * half} lines left out", *lines[-half:]]
    return "\n".join(lines)


def _expected(view: CaseView) -> str:
    compare, shrink = view.findings.get("compare"), view.findings.get("shrink")
    if isinstance(compare, Compare) and (
        passed := [row.change for row in compare.rows if row.outcome == "passed"]
    ):
        return f"what it does with {text(passed[0])}, where it goes through."
    if isinstance(shrink, Shrink):
        for each in shrink.conditions:
            if each.needed and each.evidence:
                return f"no failure, as without {text(each.what)} ({text(each.evidence)})."
    return "no failure."


def _known(view: CaseView) -> Iterator[str]:
    """The operator with its arguments, what is at fault, and whether values matter."""
    locate, shrink = view.findings.get("locate"), view.findings.get("shrink")
    if isinstance(locate, Locate) and locate.operator:
        arguments = [
            f"{each.name}: {words.tensor(each.dtype, each.shape, each.device)}"
            for each in locate.arguments
            if each.shape is not None
        ]
        yield f"It begins in {locate.operator}" + (
            f" with {', '.join(arguments[:_MOST_ROWS])}." if arguments else "."
        )
        for violation in locate.violations[:2]:
            values = words.listed([each.value for each in violation.elements], 3)
            yield f"{violation.argument} holds {values}; {violation.allowed} is allowed."
    if isinstance(shrink, Shrink):
        for each in shrink.conditions[:_MOST_ROWS]:
            yield f"{each.what}: {'needed' if each.needed else 'not needed'}" + (
                f" ({each.evidence})" if each.evidence else ""
            )
    yield f"Kind of fault: {view.explain.summary}."


def _tried(view: CaseView) -> str:
    """The variants as a table."""
    compare = view.findings.get("compare")
    if not isinstance(compare, Compare) or not compare.rows:
        return ""
    rows = [f"| {text(row.change)} | {text(words.outcome(row.outcome))} |" for row in compare.rows]
    return "\n".join(["| one change | outcome |", "|---|---|", *rows])


def _not_for_the_tracker(view: CaseView) -> str:
    """Said first, for whoever would post it all the same."""
    locate = view.findings.get("locate")
    samples = (
        [
            str(each.sample)
            for violation in locate.violations
            for each in violation.elements
            if each.sample is not None
        ]
        if isinstance(locate, Locate)
        else []
    )
    point = (
        f" Look at sample {words.listed(samples, 3)} first." if samples else f" {view.explain.first_check}"
    )
    why = "the data" if view.explain.family == "data" else "how the operator is called"
    return f"> **Not for the tracker.** What was found points to {why}, not to a bug of torch's.{text(point)} For help with it: firstfault report --for forum"


def _versions(view: CaseView, given: str | None) -> str:
    """collect_env's output, without its noise, and which torch the failure was recorded with where that differs."""
    environment = view.case.environment
    collected = given if given is not None else _collect_env()
    if collected is None:
        return _short_versions(view)
    lines = [line for line in collected.strip().splitlines() if not line.lstrip().startswith(_NOISE)]
    if environment.torch and f"PyTorch version: {environment.torch}" not in collected:
        lines.insert(
            0,
            f"The failure was recorded with torch {environment.torch}; what follows is another installation.",
        )
    return "\n".join(lines)


def _collect_env() -> str | None:
    """The output of torch.utils.collect_env, in a process of its own; None when it can't be had."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "torch.utils.collect_env"],
            capture_output=True,
            text=True,
            timeout=_COLLECT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 and "PyTorch version" in done.stdout else None


def _short_versions(view: CaseView) -> str:
    environment = view.case.environment
    lines = [
        f"torch {environment.torch or 'not recorded'} ({words.backend(environment.backend)})",
        f"Python {environment.python}, {environment.platform}",
    ]
    lines += [f"{name} {version}" for name, version in environment.packages.items() if name != "torch"][
        :_MOST_ROWS
    ]
    lines += [f"{each.kind}: {each.name}" for each in environment.devices if each.name]
    return "\n".join(lines)


def _comment(redactor: Redactor, show_private: bool) -> str:
    if show_private:
        return "<!-- For you alone: nothing was replaced. Don't post this. -->"
    advice = "Read this before you post it. You answer for it: say so where a tool helped, and search for the same report first."
    return f"<!-- {advice}\n{review(redactor)}\n-->"
