"""What the steps found out: one frozen struct a step, stored beside the facts as ``findings/STEP.json``.

The field names are the machine contract: ``show --json`` gives them under ``findings.STEP``. ``summary`` is the one
line that a person reads; ``not_done`` says why a step could not be done, in which case the rest stays empty.
"""

from __future__ import annotations

from typing import Any, Literal

from firstfault.case.schema import Fact, Frame

OutcomeName = Literal["same", "other", "passed", "diverged", "invalid", "timed_out", "lost"]


class Finding(Fact, frozen=True, kw_only=True):
    """Base of all findings."""

    summary: str = ""
    not_done: str | None = None
    seconds: float = 0.0
    trials: int = 0


class Replay(Finding, frozen=True, kw_only=True):
    """Whether the failure came back. ``same`` of ``runs`` attempts failed with the recorded signature.

    ``batch_identical``: True when the batch was rebuilt bit for bit, False when it differs, None when unknown (the
    batch never came to be, or its values were not recorded). ``plan`` names the plan that worked, e.g. ``'batch
    alone'``; ``fed`` is ``'ids'`` or ``'values'``.
    """

    outcome: OutcomeName = "lost"
    same: int = 0
    runs: int = 0
    batch_identical: bool | None = None
    plan: str = ""
    plans_tried: tuple[str, ...] = ()
    fed: Literal["ids", "values"] = "ids"
    signature: str = ""
    other_signature: str | None = None
    reproduced_in_new_interpreter: bool | None = None


class Argument(Fact, frozen=True, kw_only=True):
    """One argument of an operator: a tensor's description, or the text of a plain value.

    ``origin`` tells what the tensor is: a leaf of the batch, a parameter or buffer by its name, or the operator that
    made it.
    """

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    stride: tuple[int, ...] | None = None
    value: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    origin: str | None = None


class Element(Fact, frozen=True, kw_only=True):
    """One element at fault: where in the argument, its value, and where in the batch and data set it came from.

    ``leaf`` is the path of the batch leaf, ``position`` the sample's place in the batch, ``sample`` its data-set
    index; ``within`` is the index inside the sample's tensor and ``path`` the whole way inside the sample as the data set
    returned it (``"['labels'][16][5]"``); ``changed_by`` lists the operators that changed the value on the way, oldest
    first, each as ``'operator: before -> after'``.
    """

    index: tuple[int, ...]
    value: Any
    leaf: str | None = None
    position: int | None = None
    sample: Any = None
    within: tuple[int, ...] | None = None
    path: str | None = None
    changed_by: tuple[str, ...] = ()


class Violation(Fact, frozen=True, kw_only=True):
    """A contract that the arguments break. ``count`` is the number of elements at fault; ``elements`` the first.

    ``fault`` is the class of fault that breaking the contract is, where the contract says.
    """

    contract: str
    argument: str
    allowed: str
    elements: tuple[Element, ...] = ()
    count: int = 0
    note: str | None = None
    fault: str | None = None


class Operation(Fact, frozen=True, kw_only=True):
    """One operator of the trail around the failure."""

    operator: str
    shapes: tuple[str, ...] = ()
    line: Frame | None = None
    module: str | None = None


class Locate(Finding, frozen=True, kw_only=True):
    """Where the failure began, which may differ from where it was seen.

    ``forward`` is the line of the forward operator, for a failure in backward. ``made_at`` is where a tensor that doesn't
    fit (another device or dtype) was made, ``changed_at`` where a tensor that backward needs was changed or freed.
    ``certain`` is False when a device reported late and nothing tells whether this operator is the one that failed.
    """

    operator: str | None = None
    began: Frame | None = None
    module: str | None = None
    forward: Frame | None = None
    arguments: tuple[Argument, ...] = ()
    violations: tuple[Violation, ...] = ()
    trail: tuple[Operation, ...] = ()
    made_at: Frame | None = None
    changed_at: Frame | None = None
    method: str = ""
    certain: bool = True


class Explain(Finding, frozen=True, kw_only=True):
    """The fault class and what follows from it."""

    fault: str = "other"
    family: str = "unknown"
    first_check: str = ""
    avoid: str = ""
    backend: str | None = None
    evidence: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


class Difference(Fact, frozen=True, kw_only=True):
    """One trait by which the failing batch stands apart; ``score`` in [0, 1] is how well it separates.

    ``number`` is the trait of the failing batch where it is one number, ``numbers`` those of the other batches (for a
    plot; a few hundred at most).
    """

    feature: str
    failing: str
    others: str
    score: float = 0.0
    number: float | None = None
    numbers: tuple[float, ...] = ()


class Branch(Fact, frozen=True, kw_only=True):
    """A line of the user's code that ran only with the failing batch."""

    file: str
    line: int
    code: str


class Contrast(Finding, frozen=True, kw_only=True):
    """What sets the failing batch apart from the others of its run."""

    differences: tuple[Difference, ...] = ()
    branches: tuple[Branch, ...] = ()
    compared: int = 0


class Condition(Fact, frozen=True, kw_only=True):
    """A trait of the case, and whether the failure needs it; ``evidence`` is the trial that shows it."""

    what: str
    needed: bool
    evidence: str = ""


class Shrink(Finding, frozen=True, kw_only=True):
    """The smallest case found.

    ``samples``: data-set indices that suffice. ``sufficient`` tells in which way: ``'culprits'`` just these,
    ``'culprits_with_others'`` they need company, ``'batch_size'`` only the size matters, ``'any'`` any one sample
    of the batch does, ``'history'`` earlier batches or weights are needed, ``'unknown'`` not established.
    ``repro`` is the file name of the stand-alone script inside the case.
    """

    samples: tuple[Any, ...] = ()
    culprits: tuple[Any, ...] = ()
    sufficient: Literal["culprits", "culprits_with_others", "batch_size", "any", "history", "unknown"] = (
        "unknown"
    )
    repro: str | None = None
    conditions: tuple[Condition, ...] = ()
    lines: int | None = None
    strategy: str = ""
    confirmed: int = 0
    others_seen: tuple[str, ...] = ()


class Row(Fact, frozen=True, kw_only=True):
    """One variant of the comparison. ``distance`` is the largest relative distance from the float64 reference."""

    change: str
    outcome: str
    distance: float | None = None
    reason: str | None = None
    signature: str | None = None


class Compare(Finding, frozen=True, kw_only=True):
    rows: tuple[Row, ...] = ()


class Breach(Fact, frozen=True, kw_only=True):
    """One sample that breaks the rule."""

    sample: Any
    value: str
    source: str | None = None


class Scan(Finding, frozen=True, kw_only=True):
    rule: str = ""
    scanned: int = 0
    total: int | None = None
    breaches: int = 0
    samples: tuple[Breach, ...] = ()
    by_source: tuple[tuple[str, int, int], ...] = ()
    histogram: tuple[tuple[str, int], ...] = ()
    suggestion: str = ""


class Check(Fact, frozen=True, kw_only=True):
    name: str
    before: str = ""
    after: str = ""
    ok: bool | None = None
    reason: str | None = None


class Verify(Finding, frozen=True, kw_only=True):
    fixed: bool | None = None
    verdict: Literal["fixed", "not fixed", "fixed, but", "can't be judged"] = "can't be judged"
    checks: tuple[Check, ...] = ()
    fed: int = 0
    consumed: int = 0
    skipped: tuple[Any, ...] = ()


STEPS: dict[str, type[Finding]] = {
    "replay": Replay,
    "locate": Locate,
    "explain": Explain,
    "contrast": Contrast,
    "shrink": Shrink,
    "compare": Compare,
    "scan": Scan,
    "verify": Verify,
}
