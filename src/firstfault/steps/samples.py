"""The samples that a failure needs, out of those of its batch.

Subsets of the batch's indices are fed through the user's own data set, transforms and collate_fn, in their order.
Before any subset is searched for, the cheap questions: does the sample that the operator's contract named fail alone;
does any one sample fail; does only the number of samples matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from firstfault.case.findings import Condition
from firstfault.case.schema import Case, Fact
from firstfault.steps.replay import Reproduction, is_same
from firstfault.trial.engine import Engine
from firstfault.trial.feeding import fed_batch
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import ScriptPlan
from firstfault.trial.reduce import smallest_subset
from firstfault.trial.signature import Signature, same, signature

Sufficient = Literal["culprits", "culprits_with_others", "batch_size", "any", "history", "unknown"]
_STAND_INS = 2  # other samples that are tried in the place of one, before it counts as a culprit


class SampleSet(Fact, frozen=True, kw_only=True):
    """What the search came to; ``others_seen`` are signatures of other failures met on the way."""

    samples: tuple[Any, ...] = ()
    culprits: tuple[Any, ...] = ()
    sufficient: Sufficient = "unknown"
    conditions: tuple[Condition, ...] = ()
    others_seen: tuple[str, ...] = ()
    plan: ScriptPlan | None = None


class Subsets:
    """Asks the engine whether a list of indices fails as the recorded batch did."""

    def __init__(self, case: Case, reproduction: Reproduction, engine: Engine) -> None:
        self.case = case
        self.engine = engine
        self.base = reproduction.plan
        self.expected: Signature = signature(case.failure)
        self.others: dict[str, int] = {}

    def plan(self, indices: Sequence[Any]) -> ScriptPlan:
        return msgspec.structs.replace(self.base, feeds=(fed_batch(self.case, indices),))

    def fails(self, outcome: Outcome) -> bool:
        """The same failure at the same place; another one is remembered."""
        if is_same(outcome, self.expected):
            return True
        if outcome.failure is not None:
            found = signature(outcome.failure)
            if not same(found, self.expected, "frame"):
                self.others[str(found)] = self.others.get(str(found), 0) + 1
        return False

    def alone(self, indices: Sequence[Any]) -> bool:
        return bool(indices) and self.fails(self.engine.run(self.plan(indices)))

    def each(self, candidates: Sequence[Sequence[Any]]) -> list[bool]:
        return [
            self.fails(outcome) for outcome in self.engine.run_all([self.plan(each) for each in candidates])
        ]

    def first(self, candidates: Sequence[list[Any]]) -> int | None:
        found = self.engine.first([self.plan(each) for each in candidates], self.fails)
        return None if found is None else found[0]


def needed_samples(
    case: Case,
    reproduction: Reproduction,
    engine: Engine,
    *,
    suspects: Sequence[Any] = (),
    left: Callable[[], bool] = lambda: True,
) -> SampleSet:
    """The smallest set of samples that fails like the batch, and in which way it suffices.

    Args:
        suspects: samples that an earlier step named; they are tried first.
        left: whether the budget allows more trials.
    """
    if reproduction.history or case.batch is None or case.batch.indices is None:
        return SampleSet(sufficient="history" if reproduction.history else "unknown", plan=reproduction.plan)
    if reproduction.plan.batch == "values":
        return SampleSet(samples=case.batch.indices, plan=reproduction.plan)
    subsets = Subsets(case, reproduction, engine)
    indices = list(case.batch.indices)
    size_matters = _only_size_matters(subsets, indices, case.batch.expected_size)
    if size_matters is not None:
        return _finished(subsets, indices, (), "batch_size", (size_matters,))
    chosen = [index for index in indices if index in suspects]
    if chosen and len(chosen) < len(indices) and subsets.alone(chosen):
        indices = chosen
    elif len(indices) > 1 and (one := _any_one(subsets, indices)) is not None:
        return _finished(
            subsets,
            [one],
            (),
            "any",
            (
                Condition(
                    what="which sample of the batch", needed=False, evidence="three of them, each alone, fail"
                ),
            ),
        )
    kept = smallest_subset(indices, subsets.first, left=left)
    culprits = _culprits(subsets, kept, list(case.batch.indices), left)
    sufficient: Sufficient = "culprits" if len(culprits) == len(kept) else "culprits_with_others"
    return _finished(subsets, kept, culprits, sufficient, ())


def _finished(
    subsets: Subsets,
    samples: Sequence[Any],
    culprits: Sequence[Any],
    sufficient: Sufficient,
    conditions: tuple[Condition, ...],
) -> SampleSet:
    return SampleSet(
        samples=tuple(samples),
        culprits=tuple(culprits),
        sufficient=sufficient,
        conditions=conditions,
        others_seen=tuple(sorted(subsets.others, key=lambda each: -subsets.others[each])),
        plan=subsets.plan(samples),
    )


def _only_size_matters(subsets: Subsets, indices: list[Any], usual: int | None) -> Condition | None:
    """An incomplete batch that fails whatever is in it, and not when it is filled up with the same samples."""
    size = len(indices)
    if usual is None or size >= usual:
        return None
    full = (indices * usual)[:usual]
    others = [[index] * size for index in (indices[0], indices[-1])]
    filled_fails, *same_size_fail = subsets.each([full, *others])
    if filled_fails or not all(same_size_fail):
        return None
    return Condition(
        what=f"a batch of {size} instead of {usual} samples",
        needed=True,
        evidence=f"any {size} of its samples fail; filled up to {usual} with the same samples it goes through",
    )


def _any_one(subsets: Subsets, indices: list[Any]) -> Any | None:
    """One sample, when the first, the middle and the last of the batch each fail alone."""
    probes = list(dict.fromkeys([indices[0], indices[len(indices) // 2], indices[-1]]))
    return probes[0] if len(probes) > 1 and all(subsets.each([[index] for index in probes])) else None


def _culprits(subsets: Subsets, kept: list[Any], batch: list[Any], left: Callable[[], bool]) -> list[Any]:
    """Those of the kept samples that no other sample of the batch can stand in for."""
    if len(kept) == 1:
        return kept
    others = [index for index in batch if index not in kept]
    culprits = []
    for position, index in enumerate(kept):
        stand_ins = [[*kept[:position], other, *kept[position + 1 :]] for other in others[:_STAND_INS]]
        if not left() or not stand_ins or subsets.first(stand_ins) is None:
            culprits.append(index)
    return culprits
