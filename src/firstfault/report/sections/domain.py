"""Values against what is allowed: reading ``'[0, 4) or -100'`` and drawing values beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from firstfault.case.findings import Argument, Violation
from firstfault.report.document import Domain

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf)"
_INTERVAL = re.compile(rf"(?P<open>[\[(])\s*(?P<low>{_NUMBER})\s*,\s*(?P<high>{_NUMBER})\s*(?P<close>[\])])")
_SINGLE = re.compile(rf"\bor ({_NUMBER})(?![\d,.]*[\])])")
_MOST_BARS = 24


def allows(allowed: str) -> Callable[[float], bool] | None:
    """Whether a number is allowed, by the text of a rule; None when the text names no interval."""
    found = _INTERVAL.search(allowed)
    if found is None:
        return None
    low, high = float(found["low"]), float(found["high"])
    singles = {float(single[1]) for single in _SINGLE.finditer(allowed)}

    def allow(value: float) -> bool:
        above = value >= low if found["open"] == "[" else value > low
        below = value <= high if found["close"] == "]" else value < high
        return (above and below) or value in singles

    return allow


def of_histogram(allowed: str, histogram: Sequence[tuple[str, int]], said: str) -> Domain | None:
    """Counted values beside a rule; None when the rule or the values are not numbers."""
    allow = allows(allowed)
    if allow is None or not histogram:
        return None
    try:
        ordered = sorted(histogram, key=lambda pair: float(pair[0]))
    except ValueError:
        return None
    bad = [(label, count, False) for label, count in ordered if not allow(float(label))]
    good = [(label, count, True) for label, count in ordered if allow(float(label))]
    kept = [*bad[:_MOST_BARS], *good[: max(_MOST_BARS - len(bad), 4)]]
    return Domain(bars=tuple(sorted(kept, key=lambda bar: float(bar[0]))), said=said, allowed=allowed)


def of_violation(violation: Violation, arguments: Sequence[Argument]) -> Domain | None:
    """The allowed classes with the values at fault beside them: for whole numbers with few classes only."""
    found = _INTERVAL.search(violation.allowed)
    values = [element.value for element in violation.elements]
    if (
        found is None
        or not values
        or not all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    ):
        return None
    low, high = float(found["low"]), float(found["high"])
    if not (
        low.is_integer() and high.is_integer() and found["close"] == ")" and 0 < high - low <= _MOST_BARS
    ):
        return None
    counts: dict[int, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    bars = [
        *((str(number), 0, True) for number in range(int(low), int(high))),
        *((str(value), count, False) for value, count in counts.items()),
    ]
    outside = ", ".join(str(value) for value in sorted(counts))
    said = f"{violation.argument} may be {violation.allowed}; at fault: {outside}."
    return Domain(bars=tuple(sorted(bars, key=lambda bar: int(bar[0]))), said=said, allowed=violation.allowed)
