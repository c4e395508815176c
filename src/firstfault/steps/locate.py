"""Find where the failure began, in a trial under the operator trace.

NVIDIA reports late, so there the trial launches kernels synchronously (CUDA_LAUNCH_BLOCKING, set before torch starts).
ROCm has variables of its own and is never given NVIDIA's. CPU, MPS and XPU are traced as they are.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from firstfault.case.findings import Locate
from firstfault.case.store import CaseFolder
from firstfault.steps.replay import is_same, reproduction
from firstfault.trial.engine import Engine
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import ScriptPlan, Variant
from firstfault.trial.signature import signature

INSTRUMENT = "firstfault.ops.locate:locate_instrument"
# ROCm: HIP serialises launches with AMD_SERIALIZE_KERNEL=3 (rocm.docs.amd.com, HIP environment variables).
SYNCHRONOUS = {"cuda": {"CUDA_LAUNCH_BLOCKING": "1"}, "rocm": {"AMD_SERIALIZE_KERNEL": "3"}}


def synchronous(backend: str, devices: bool) -> Variant | None:
    """The environment in which a back end reports failures where they happen; None where it always does."""
    environment = SYNCHRONOUS.get(backend) if devices else None
    return Variant(name="synchronous launches", environment=environment) if environment else None


def locate(folder: CaseFolder, engine: Engine) -> Locate:
    """Run the reproducing plan under the trace; the finding is written into the case."""
    started, trials = time.monotonic(), engine.trials
    case = folder.facts()
    found = reproduction(folder)
    if found is None:
        return _done(
            folder,
            Locate(not_done="the failure has not been reproduced", summary="not located: not reproduced"),
            started,
            0,
        )
    variant = synchronous(case.environment.backend, bool(case.environment.devices))
    plan = msgspec.structs.replace(found.plan, instruments=(INSTRUMENT,), variant=variant)
    outcome = engine.run(plan)
    finding = read_finding(outcome)
    if finding is None:
        finding = Locate(not_done=_reason(outcome), summary=f"not located: {_reason(outcome)}")
    elif not is_same(outcome, signature(case.failure)):
        note = "under the trace the failure is another one; this is where that one began"
        finding = msgspec.structs.replace(finding, not_done=note)
    finding = msgspec.structs.replace(finding, summary=finding.summary or summary(finding))
    return _done(folder, finding, started, engine.trials - trials)


def read_finding(outcome: Outcome) -> Locate | None:
    """What the instrument wrote in its trial."""
    if outcome.folder is None:
        return None
    try:
        return msgspec.json.decode((Path(outcome.folder) / "locate.json").read_bytes(), type=Locate)
    except (OSError, msgspec.MsgspecError):
        return None


def _reason(outcome: Outcome) -> str:
    if outcome.ended == "passed":
        return "with the operator trace on, the batch goes through"
    return outcome.reason or f"the trial ended as '{outcome.ended}'"


def summary(finding: Locate) -> str:
    """The finding in one line."""
    if finding.operator is None:
        where = f" in {finding.module}" if finding.module else ""
        return f"raised by Python code{where}; no operator is at fault"
    text = f"{finding.operator}"
    if finding.began is not None:
        text += f" at {Path(finding.began.file).name}:{finding.began.line}"
    for violation in finding.violations[:1]:
        element = violation.elements[0] if violation.elements else None
        if element is not None:
            text += f"; {violation.argument} holds {element.value}, allowed is {violation.allowed}"
            if element.sample is not None:
                text += f" (sample {element.sample})"
    return text


def _done(folder: CaseFolder, finding: Locate, started: float, trials: int) -> Locate:
    finding = msgspec.structs.replace(finding, seconds=time.monotonic() - started, trials=trials)
    folder.write_finding("locate", finding)
    return finding


def plan_with(plan: ScriptPlan, *instruments: str) -> ScriptPlan:
    """The plan with further instruments."""
    return msgspec.structs.replace(plan, instruments=(*plan.instruments, *instruments))
