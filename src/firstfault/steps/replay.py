"""Get the failure back in a fresh process, from as little of the run as it needs.

Plans are tried from the smallest to the largest: the failing batch alone; with one batch for each other loader, for
scripts that can't live with an empty one; fetched by real workers; the kept values instead of the data set's; and in
the end everything that came before. The first plan that fails with the recorded signature is the replay.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from firstfault.case.findings import Replay
from firstfault.case.schema import Case, Fact
from firstfault.case.source import changed_since
from firstfault.case.store import CaseFolder, write_atomically
from firstfault.errors import UsageError
from firstfault.trial.engine import Engine
from firstfault.trial.feeding import fed_batch
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import ScriptPlan
from firstfault.trial.signature import Signature, same, signature

CONFIRMING_RUNS = 3  # further runs of a plan that reproduced, to learn how reliably it does
CONFIDENCE = 0.95
LONG_SECONDS = 600.0  # for everything before the failing batch

BatchSource = Literal["auto", "ids", "values"]


class Attempt(Fact, frozen=True, kw_only=True):
    """A plan under the name that people read."""

    name: str
    plan: ScriptPlan


class Reproduction(Fact, frozen=True, kw_only=True):
    """The plan that reproduces a case, kept beside the findings for the steps that follow."""

    name: str
    plan: ScriptPlan
    rate: float = 1.0
    history: bool = False


def attempts(
    case: Case, folder: Path, batch: BatchSource = "auto", source: str | None = None
) -> Iterator[Attempt]:
    """The plans to try, smallest first."""
    base = ScriptPlan(case=str(folder.absolute()), source=source)
    if case.progress.batch is None or case.batch is None:
        yield Attempt(name=_whole_name(case), plan=_whole(case, base))
        return
    alone = msgspec.structs.replace(base, feeds=(fed_batch(case),))
    by_ids = batch != "values" and case.batch.indices is not None
    by_values = batch != "ids" and (folder / "private" / "batch.json").exists()
    if by_ids:
        yield Attempt(name="the batch alone", plan=alone)
        first = msgspec.structs.replace(alone, others="first")
        yield Attempt(name="the batch, and the first batch of every other loader", plan=first)
    if by_values:
        values = msgspec.structs.replace(alone, batch="values")
        yield Attempt(name="the kept batch alone", plan=values)
        yield Attempt(
            name="the kept batch, and the first batch of every other loader",
            plan=msgspec.structs.replace(values, others="first"),
        )
    yield Attempt(name="everything up to the batch", plan=_whole(case, base))


def _whole(case: Case, base: ScriptPlan) -> ScriptPlan:
    progress = case.progress
    position = None
    if progress.loader is not None and progress.pass_ is not None and progress.batch is not None:
        position = (progress.loader, progress.pass_, progress.batch)
    return msgspec.structs.replace(
        base,
        others="everything",
        until_batch=position,
        until="through" if position else "end",
        restore_rng=False,
        workers="real",
        seconds=LONG_SECONDS,
    )


def _whole_name(case: Case) -> str:
    return "the script's set-up" if case.failure.phase == "setup" else "the whole script"


def replay(
    folder: CaseFolder,
    engine: Engine,
    *,
    batch: BatchSource = "auto",
    runs: int = CONFIRMING_RUNS,
    source: str | None = None,
) -> Replay:
    """Try the plans in order, then run the one that works again, once in a new interpreter.

    The finding is written into the case, and the plan beside it.
    """
    started, trials = time.monotonic(), engine.trials
    case = folder.facts()
    expected = signature(case.failure)
    tried: list[str] = []
    closest: Outcome | None = None
    for attempt in attempts(case, folder.path, batch, source):
        if closest is not None and _pointless(attempt, case, closest):
            continue
        tried.append(attempt.name)
        outcome, fresh = _try(engine, attempt.plan, first=closest is None)
        if outcome.ended == "invalid":
            raise UsageError(outcome.reason or "the case can't be replayed as it is now")
        if is_same(outcome, expected):
            finding = _confirm(folder, engine, attempt, outcome, fresh, expected, runs, tuple(tried), case)
            return _done(folder, finding, started, engine.trials - trials)
        closest = _closer(closest, outcome)
    assert closest is not None
    return _done(folder, _not_reproduced(closest, tuple(tried), expected), started, engine.trials - trials)


def _try(engine: Engine, plan: ScriptPlan, *, first: bool) -> tuple[Outcome, Outcome | None]:
    """One attempt. The first runs in a new interpreter as well: that is needed in the end if it reproduces, and the
    zygote is still importing torch meanwhile."""
    if not first or plan.others == "everything":
        return engine.run(plan), None
    outcome, fresh = engine.run_all([plan, _in_new_interpreter(plan)])
    return outcome, fresh


def _in_new_interpreter(plan: ScriptPlan) -> ScriptPlan:
    return msgspec.structs.replace(plan, new_interpreter=True)


def is_same(outcome: Outcome, expected: Signature, operator: str = "") -> bool:
    """Whether a trial failed as the recorded run did: the same kind, type, masked message and frame."""
    return (
        outcome.ended == "failed"
        and outcome.failure is not None
        and same(signature(outcome.failure, operator), expected, "frame")
    )


def _pointless(attempt: Attempt, case: Case, before: Outcome) -> bool:
    """Whether an attempt can't tell more than one that ended before.

    When the batch went through, its kept values are worth a look only if it wasn't rebuilt, and the source is still the
    recorded one: after a change of the source, a batch that goes through is an answer, whatever the old values do.
    """
    if attempt.plan.others == "first" and attempt.plan.batch == "ids":
        return before.reached
    if attempt.plan.batch == "values" and before.ended == "passed" and before.reached:
        recorded = case.batch.digest if case.batch is not None else None
        return before.digest_fetched == recorded or changed_since(case.source)
    return False


def _closer(one: Outcome | None, other: Outcome) -> Outcome:
    """Of two outcomes that aren't the recorded failure, the one that says more: it came further."""
    if one is None or (other.reached and not one.reached):
        return other
    return other if other.ended in ("passed", "failed") and other.reached >= one.reached else one


def _confirm(
    folder: CaseFolder,
    engine: Engine,
    attempt: Attempt,
    first: Outcome,
    fresh: Outcome | None,
    expected: Signature,
    runs: int,
    tried: tuple[str, ...],
    case: Case,
) -> Replay:
    plan = attempt.plan
    slow = plan.others == "everything" and first.seconds > LONG_SECONDS / 20
    again = (
        []
        if slow
        else engine.run_all([msgspec.structs.replace(plan, repeat=number) for number in range(1, runs)])
    )
    fresh = fresh or engine.run(_in_new_interpreter(plan))
    outcomes = [first, *again, fresh]
    matching = sum(is_same(outcome, expected) for outcome in outcomes)
    rate = matching / len(outcomes)
    history = plan.others == "everything" and case.batch is not None
    write_reproduction(folder, Reproduction(name=attempt.name, plan=plan, rate=rate, history=history))
    identical = _identical(case, first)
    if identical and plan.batch == "ids":
        forget_values(folder)
    flaky = "" if rate == 1 else f", flaky: {matching} of {len(outcomes)} runs"
    rebuilt = {True: ", batch identical", False: ", the batch differs", None: ""}[identical]
    return Replay(
        summary=f"the same failure came back from {attempt.name}{rebuilt}{flaky}",
        outcome="same",
        same=matching,
        runs=len(outcomes),
        batch_identical=identical,
        plan=attempt.name,
        plans_tried=tried,
        fed=plan.batch,
        signature=str(expected),
        reproduced_in_new_interpreter=is_same(fresh, expected),
    )


def _identical(case: Case, outcome: Outcome) -> bool | None:
    """Whether the batch came back bit for bit: at the failure if it was recorded, else as handed out."""
    recorded = case.batch.digest if case.batch is not None else None
    if recorded is None or (outcome.digest_failed is None and outcome.digest_fetched is None):
        return None
    return recorded in (outcome.digest_failed, outcome.digest_fetched)


def _not_reproduced(closest: Outcome, tried: tuple[str, ...], expected: Signature) -> Replay:
    other = None
    if closest.failure is not None:
        other = str(signature(closest.failure))
    names = {"failed": "other", "passed": "passed"}
    name = names.get(closest.ended, closest.ended)
    detail = {"other": f"it failed differently: {other}", "passed": "the batch went through"}.get(
        name, closest.reason or name
    )
    return Replay(
        summary=f"not reproduced ({len(tried)} plans tried): {detail}",
        outcome=name,  # type: ignore[arg-type]
        runs=len(tried),
        plans_tried=tried,
        signature=str(expected),
        other_signature=other,
    )


def _done(folder: CaseFolder, finding: Replay, started: float, trials: int) -> Replay:
    finding = msgspec.structs.replace(finding, seconds=time.monotonic() - started, trials=trials)
    folder.write_finding("replay", finding)
    return finding


def forget_values(folder: CaseFolder) -> None:
    """Remove the kept values: the batch has been rebuilt from its samples' ids, so nothing is lost without them."""
    for path in folder.private.glob("batch.*"):
        path.unlink(missing_ok=True)


# ---- for the steps that follow ------------------------------------------------------------------------------------


def write_reproduction(folder: CaseFolder, reproduction: Reproduction) -> None:
    (folder.path / "findings").mkdir(exist_ok=True)
    write_atomically(folder.path / "findings" / "reproduction.plan", msgspec.json.encode(reproduction))


def reproduction(folder: CaseFolder) -> Reproduction | None:
    """The plan that reproduced the case, or None when no replay has succeeded yet."""
    try:
        found = msgspec.json.decode(
            (folder.path / "findings" / "reproduction.plan").read_bytes(), type=Reproduction
        )
    except (OSError, msgspec.MsgspecError):
        return None
    return msgspec.structs.replace(
        found, plan=msgspec.structs.replace(found.plan, case=str(folder.path.absolute()))
    )


def repeats(rate: float, confidence: float = CONFIDENCE) -> int:
    """How often a candidate must be run so that a failure of this rate shows with this confidence; also the number of
    clean runs that a claim 'gone' needs."""
    if rate >= 1:
        return 1
    return math.ceil(math.log(1 - confidence) / math.log(1 - max(rate, 0.01)))
