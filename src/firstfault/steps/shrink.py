"""Shrink a case: the samples that suffice, and a stand-alone ``repro.py``.

Samples come first, so that the operator's tensors are small when they are captured. The failing call is then kept in a
trial over those samples and reduced as a program of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from firstfault.case.findings import Locate, Shrink
from firstfault.case.schema import Case
from firstfault.case.store import CaseFolder, write_atomically
from firstfault.faults.classify import classify_case
from firstfault.report.repro import repro_text
from firstfault.steps.program import Smallest, smallest_program
from firstfault.steps.replay import Reproduction, is_same, reproduction
from firstfault.steps.samples import SampleSet, needed_samples
from firstfault.trial.engine import Engine
from firstfault.trial.plan import ScriptPlan, SourcePlan
from firstfault.trial.signature import signature

CAPTURE = "firstfault.ops.capture:capture_instrument"
CAPTURE_NONFINITE = "firstfault.ops.capture:capture_nonfinite_instrument"
DEFAULT_SECONDS = 60.0
CONFIRMATIONS = 2  # runs of the finished script in new interpreters


def shrink(folder: CaseFolder, engine: Engine, *, seconds: float = DEFAULT_SECONDS) -> Shrink:
    """Find the samples, then the program; both findings are written into the case as soon as they are there."""
    started, trials = time.monotonic(), engine.trials
    case = folder.facts()
    found = reproduction(folder)
    if found is None:
        finding = Shrink(not_done="the failure has not been reproduced", summary="not shrunk: not reproduced")
        folder.write_finding("shrink", finding)
        return finding
    end = started + seconds

    def left() -> bool:
        return time.monotonic() < end

    samples = needed_samples(case, found, engine, suspects=_suspects(folder, case), left=left)
    finding = _with_samples(samples)
    folder.write_finding("shrink", finding)
    smallest = _program(case, found, samples, engine, left)
    if smallest is not None:
        finding = _with_program(folder, case, finding, smallest, engine)
    finding = msgspec.structs.replace(
        finding, seconds=time.monotonic() - started, trials=engine.trials - trials
    )
    finding = msgspec.structs.replace(finding, summary=_summary(finding))
    folder.write_finding("shrink", finding)
    return finding


def _suspects(folder: CaseFolder, case: Case) -> Sequence[Any]:
    """Samples that an earlier step or the recorder named."""
    fetch = case.failure.fetch
    named = [] if fetch is None or fetch.sample is None else [fetch.sample]
    located = folder.finding("locate")
    if isinstance(located, Locate):
        named += [
            e.sample for violation in located.violations for e in violation.elements if e.sample is not None
        ]
    return named


def _with_samples(samples: SampleSet) -> Shrink:
    return Shrink(
        samples=samples.samples,
        culprits=samples.culprits,
        sufficient=samples.sufficient,
        conditions=samples.conditions,
        others_seen=samples.others_seen,
    )


def _program(
    case: Case, found: Reproduction, samples: SampleSet, engine: Engine, left: Any
) -> Smallest | None:
    """Capture over the smallest batch; over the whole one when that doesn't fail under the instrument."""
    expected = signature(case.failure)
    nonfinite = classify_case(case).fault == "nonfinite"
    instrument = CAPTURE_NONFINITE if nonfinite else CAPTURE
    plans: list[ScriptPlan] = [plan for plan in (samples.plan, found.plan) if plan is not None]
    for plan in dict.fromkeys(msgspec.json.encode(each) for each in plans):
        decoded = msgspec.json.decode(plan, type=ScriptPlan)
        outcome = engine.run(msgspec.structs.replace(decoded, instruments=(instrument,)))
        if is_same(outcome, expected) and outcome.folder is not None:
            smallest = smallest_program(Path(outcome.folder), expected, engine, left)
            if smallest is not None:
                return smallest
    return None


def _with_program(
    folder: CaseFolder, case: Case, finding: Shrink, smallest: Smallest, engine: Engine
) -> Shrink:
    """Write ``repro.py``, run it in new interpreters, and say how often it did what it should."""
    environment = case.environment
    text = repro_text(
        smallest.program,
        smallest.signature,
        smallest.message,
        smallest.conditions,
        environment.torch or "?",
        environment.backend,
    )
    write_atomically(folder.path / "repro.py", text.encode())
    plans = [
        SourcePlan(text=text, checks_itself=True, new_interpreter=True, repeat=n)
        for n in range(CONFIRMATIONS)
    ]
    confirmed = sum(outcome.exit_code == 1 for outcome in engine.run_all(plans))
    return msgspec.structs.replace(
        finding,
        repro="repro.py",
        conditions=(*finding.conditions, *smallest.conditions),
        lines=len(text.splitlines()),
        strategy=smallest.program.kind,
        confirmed=confirmed,
        others_seen=tuple(dict.fromkeys((*finding.others_seen, *smallest.others_seen))),
    )


def _summary(finding: Shrink) -> str:
    named = ", ".join(str(each) for each in finding.samples[:5])
    text = {
        "culprits": f"sample {named} suffices"
        if len(finding.samples) == 1
        else f"samples {named} suffice, all are needed",
        "culprits_with_others": f"sample {', '.join(map(str, finding.culprits[:5]))}, together with others of its batch",
        "batch_size": f"any batch of {len(finding.samples)} samples does: the size matters, not the samples",
        "any": "any sample of the batch does",
        "history": "the batch alone is not enough: what came before it is needed",
        "unknown": "the samples could not be narrowed down",
    }[finding.sufficient]
    if finding.repro is None:
        return f"{text}; no stand-alone script was found"
    return f"{text}; repro.py has {finding.lines} lines and failed {finding.confirmed} of {CONFIRMATIONS} times on its own"
