"""The reducers that every shrinking step uses: plain functions over a question that trials answer.

Candidates are asked for in groups, so that trials can be speculated side by side; the answer is the first interesting
one *in order*, so a result never depends on how many ran at once. Chunks are halved and taken from the back down to
single elements, to a fixpoint: measured against classic ddmin this needs a third fewer trials (see notes/reducers.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
First = Callable[[Sequence[list[T]]], int | None]


def smallest_subset(items: Sequence[T], first: First[T], *, left: Callable[[], bool] = lambda: True) -> list[T]:
    """A subset, in order, that is interesting and from which no single element can be taken away.

    Args:
        items: all elements; they are known to be interesting together.
        first: the index of the first interesting candidate of a group, or None.
        left: whether the budget allows another group; when it doesn't, the best so far is returned.
    """
    current = list(items)
    chunk = max(len(current) // 2, 1)
    while True:
        removed = False
        end = len(current)
        while end > 0 and len(current) > 1 and left():
            starts = [max(stop - chunk, 0) for stop in range(end, 0, -chunk)]
            stops = [min(start + chunk, end) if start else end - chunk * (len(starts) - 1) for start in starts]
            spans = [(start, stop) for start, stop in zip(starts, stops, strict=True) if stop - start < len(current)]
            hit = first([current[:start] + current[stop:] for start, stop in spans]) if spans else None
            if hit is None:
                break
            start, stop = spans[hit]
            current = current[:start] + current[stop:]
            removed, end = True, start
        if not left() or (chunk == 1 and not removed):
            return current
        chunk = max(min(chunk // 2 if not (removed and chunk == 1) else 1, len(current) // 2), 1)


def smallest_number(low: int, high: int, interesting: Callable[[int], bool]) -> int:
    """The smallest interesting number of ``[low, high]``, if the interesting ones reach up to ``high``; found by
    trying ``low``, then by bisection. ``high`` is known to be interesting."""
    if low >= high:
        return high
    if interesting(low):
        return low
    below, above = low, high
    while above - below > 1:
        middle = (below + above) // 2
        if interesting(middle):
            above = middle
        else:
            below = middle
    return above
