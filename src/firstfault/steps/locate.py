"""Find where the failure began, in a trial under the operator trace.

The host raises where it fails, so one trial under the plain trace tells. A device reports late; there a trial is run in
which launches wait, by the back end's own means, and after that one in which the trace itself waits for the device after
each operator. ROCm has variables of its own and is never given NVIDIA's. Whatever waits exists in these trials only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from firstfault.case.findings import Locate
from firstfault.case.schema import Case, Fact, Failure
from firstfault.case.store import CaseFolder
from firstfault.ops.late import BLOCKING, reports_late
from firstfault.steps.replay import Reproduction, is_same, repeats, reproduction
from firstfault.trial.engine import Engine
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import Variant
from firstfault.trial.signature import same, signature

PLAIN = "firstfault.ops.locate:locate_instrument"
SYNCHRONISED = "firstfault.ops.locate:synchronized_instrument"
LIGHT = "firstfault.ops.locate:light_instrument"
DYING = "firstfault.ops.locate:dying_instrument"
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|can't allocate memory|bad_alloc|MemoryError", re.IGNORECASE
)
_COMPILED = re.compile(r"torchinductor|torch/_inductor|torch/_dynamo|InductorError|BackendCompilerFailed")
MAX_REPEATS = 20  # of a trial whose failure comes and goes


class Way(Fact, frozen=True, kw_only=True):
    """One way of looking: an instrument, and the environment that the process gets."""

    instrument: str
    variant: Variant | None = None


def locate(folder: CaseFolder, engine: Engine) -> Locate:
    """Run the reproducing plan under the trace; the finding is written into the case."""
    started, trials = time.monotonic(), engine.trials
    case = folder.facts()
    found = reproduction(folder)
    if found is None:
        finding = Locate(
            not_done="the failure has not been reproduced", summary="not located: not reproduced"
        )
    else:
        finding = _located(case, found, engine)
    finding = msgspec.structs.replace(
        finding,
        summary=finding.summary or summary(finding),
        seconds=time.monotonic() - started,
        trials=engine.trials - trials,
    )
    folder.write_finding("locate", finding)
    return finding


def ways(case: Case) -> Iterator[Way]:
    """The ways of looking at a case, cheapest first; the next is gone when one didn't settle it."""
    text = _text(case.failure)
    if case.failure.kind == "killed":
        yield Way(instrument=DYING)
        return
    if _OUT_OF_MEMORY.search(text):
        yield Way(instrument=LIGHT)
        return
    late = reports_late(text)
    waiting = BLOCKING.get(case.environment.backend)
    if late and waiting is not None:
        yield Way(instrument=PLAIN, variant=Variant(name="synchronous launches", environment=waiting))
    else:
        yield Way(instrument=PLAIN)
    if late:
        yield Way(instrument=SYNCHRONISED)
    yield Way(instrument=LIGHT)


def _located(case: Case, found: Reproduction, engine: Engine) -> Locate:
    """Go the ways until one gives the recorded failure with a certain answer; else the best that was found."""
    best: Locate | None = None
    reason = ""
    for way in ways(case):
        if way.instrument == LIGHT and best is not None:
            break
        outcome = _run(way, case, found, engine)
        finding = read_finding(outcome)
        if finding is None:
            reason = reason or _reason(outcome, case)
        elif _is_same(outcome, case.failure):
            if finding.certain:
                return finding
            best = finding if best is None or best.not_done else best
        elif best is None and not _OUT_OF_MEMORY.search(_text(outcome.failure)):
            note = "under the trace the failure is another one; this is where that one began"
            best = msgspec.structs.replace(finding, not_done=note)
    return best or Locate(not_done=reason, summary=f"not located: {reason}")


def _run(way: Way, case: Case, found: Reproduction, engine: Engine) -> Outcome:
    """One trial, or, for a failure that comes and goes, as many as it takes to see it."""
    plan = msgspec.structs.replace(
        found.plan,
        instruments=(*found.plan.instruments, way.instrument),
        variant=way.variant or found.plan.variant,
    )
    outcome = engine.run(plan)
    for number in range(1, min(repeats(found.rate), MAX_REPEATS)):
        if outcome.ended == "failed":
            break
        outcome = engine.run(msgspec.structs.replace(plan, repeat=plan.repeat + number))
    return outcome


def _is_same(outcome: Outcome, failure: Failure) -> bool:
    """Whether a trial failed as the recorded run did.

    A device's failure is seen elsewhere once launches wait, and then its message ends after the first line.
    """
    expected = signature(failure)
    if is_same(outcome, expected):
        return True
    if outcome.failure is None or not reports_late(_text(failure)):
        return False
    got = signature(outcome.failure)
    return same(got, expected, "type") and got.message.split("\n")[0] == expected.message.split("\n")[0]


def _text(failure: Failure | None) -> str:
    if failure is None or failure.exception is None:
        return ""
    return f"{failure.exception.type}: {failure.exception.message}"


def read_finding(outcome: Outcome) -> Locate | None:
    """What the instrument wrote in its trial."""
    if outcome.folder is None:
        return None
    try:
        return msgspec.json.decode((Path(outcome.folder) / "locate.json").read_bytes(), type=Locate)
    except (OSError, msgspec.MsgspecError):
        return None


def _reason(outcome: Outcome, case: Case) -> str:
    if outcome.ended == "passed":
        files = " ".join(frame.file for frame in case.failure.frames)
        if _COMPILED.search(files) or _COMPILED.search(_text(case.failure)):
            return "as it was written the code goes through; only its compiled form fails"
        return "with the operator trace on, the batch goes through"
    return outcome.reason or f"the trial ended as '{outcome.ended}'"


def summary(finding: Locate) -> str:
    """The finding in one line."""
    if finding.operator is None:
        where = f" in {finding.module}" if finding.module else ""
        return f"raised by Python code{where}; no operator is at fault"
    text = finding.operator if finding.certain else f"seen at {finding.operator}, which reported it late"
    if finding.began is not None:
        text += f" at {Path(finding.began.file).name}:{finding.began.line}"
    if finding.changed_at is not None and finding.forward is not None:
        text += f"; backward needs it for line {finding.forward.line}"
    for violation in finding.violations[:1]:
        element = violation.elements[0] if violation.elements else None
        if element is not None:
            text += f"; {violation.argument} holds {element.value}, allowed is {violation.allowed}"
            if element.sample is not None:
                text += f" (sample {element.sample})"
    return text
