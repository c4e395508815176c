"""The reducers that every shrinking step uses: plain functions over a question that trials answer.

A candidate is *interesting* when its trial fails for the same reason. Candidates are asked for in groups, as a
:data:`First`: the answer is the first interesting one *in the order given*. Which groups are asked never depends on how
many trials run side by side, so neither does the result. Within a group each candidate is the one to ask next if all
before it are refused: one trial at a time asks nothing in vain, and several speculate along the refusals.

Where what is interesting stays so when more is added to it (one bad sample in a batch), the last element that is needed
can be bisected for: the shortest interesting prefix ends with it. So each needed element costs about log2 of the number
of elements, where halved chunks cost twice that (notes/reducers.md). In the end every single element is taken away once,
so the result is minimal whatever the question is like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
First = Callable[[Sequence[T]], int | None]
Left = Callable[[], bool]

AHEAD = 2  # candidates in a bisection's group; a third would be asked in vain three times out of four
_FEW = 4  # up to so many needed elements, it is worth a trial whether they are all
_LAST_ONE = 1.5  # needed elements still to be expected, below which it is worth that trial again
_MEDIAN = 0.7  # of distances whose mean is 1, when elements are needed at random (ln 2)
_GROUP = 32  # single elements asked for at once; more than that are not tried side by side
_PARTS = 8  # parts of a result, at most, that are taken away whole before its single elements


def always() -> bool:
    """A budget without limits."""
    return True


def one_by_one(interesting: Callable[[T], bool]) -> First[T]:
    """A question about single candidates as one about groups."""
    return lambda group: next((number for number, each in enumerate(group) if interesting(each)), None)


def smallest_number(low: int, high: int, interesting: Callable[[int], bool]) -> int:
    """The smallest interesting number of ``[low, high]``, if the interesting ones reach up to ``high``.

    ``high`` is known to be interesting. A number that can't be lowered at all costs three questions.
    """
    if low >= high:
        return high
    first = one_by_one(interesting)
    quick = sorted({low, (low + high) // 2, high - 1})
    at = first(quick)
    if at is None:
        return high
    return low if at == 0 else _lowest(quick[at - 1], quick[at], high - low, first)


def smallest_subset(items: Sequence[T], first: First[list[T]], *, left: Left = always) -> list[T]:
    """A subset, in order, that is interesting and from which no single element can be taken away.

    Args:
        items: all elements; they are known to be interesting together. The empty subset is never asked for.
        first: the index of the first interesting candidate of a group, or None.
        left: whether the budget allows another group; when it doesn't, the smallest one so far is returned.
    """
    search = _Search(items, first, left)
    try:
        _find_needed(search)
        _take_away(search)
    except _Spent:
        pass
    return search.chosen(search.best)


# ---- bisection --------------------------------------------------------------------------------------------------------


def _lowest(refused: int | None, accepted: int, step: int, first: First[int], *, zero: bool = False) -> int:
    """The lowest number above ``refused`` that is accepted, if the accepted ones reach up to ``accepted``.

    ``step`` is how far below ``accepted`` to ask first; it doubles while that succeeds. ``refused`` is None when 0 has
    not been asked; ``zero`` asks it first.
    """
    while accepted - (-1 if refused is None else refused) > 1:
        path = [0] if zero else []
        path += _steps_down(0 if zero else refused, accepted, step, AHEAD - len(path))
        at = first(path)
        if at != 0:
            refused = path[-1] if at is None else path[at - 1]
        elif not zero:
            step *= 2
        if at is not None:
            accepted = path[at]
        zero = False
    return accepted


def _steps_down(refused: int | None, accepted: int, step: int, count: int) -> list[int]:
    """The numbers to ask one after the other while each is refused."""
    path: list[int] = []
    while len(path) < count and accepted - (-1 if refused is None else refused) > 1:
        refused = (
            max(accepted - step, 0)
            if refused is None
            else accepted - max(min(step, (accepted - refused) // 2), 1)
        )
        path.append(refused)
    return path


# ---- subsets ----------------------------------------------------------------------------------------------------------

_Positions = tuple[int, ...]


class _Spent(Exception):
    """The budget is used up."""


class _Search(Generic[T]):
    """What has been asked so far. ``best`` are the positions of the smallest interesting subset met."""

    def __init__(self, items: Sequence[T], first: First[list[T]], left: Left) -> None:
        self.items = items
        self.first = first
        self.left = left
        self.best: _Positions = tuple(range(len(items)))
        self.refused: set[_Positions] = {()}

    def chosen(self, positions: _Positions) -> list[T]:
        return [self.items[at] for at in positions]

    def ask(self, group: Sequence[_Positions]) -> int | None:
        """The first interesting candidate of a group, which becomes the best; none is asked for twice."""
        new = [number for number, each in enumerate(group) if each not in self.refused]
        if not new:
            return None
        if not self.left():
            raise _Spent
        at = self.first([self.chosen(group[number]) for number in new])
        self.refused.update(group[number] for number in new[:at])
        if at is None:
            return None
        self.best = group[new[at]]
        return new[at]


def _find_needed(search: _Search[T]) -> None:
    """Bisect for the needed elements: the last one, the first one, then those between from the back.

    Both ends first, because needed elements often lie close together.
    """
    rest = search.best
    half = len(rest) // 2
    kept = _lowest(0, len(rest), half, lambda counts: search.ask([rest[:count] for count in counts]))
    rest, back = rest[: kept - 1], rest[kept - 1 : kept]

    def ends(counts: Sequence[int]) -> int | None:
        return search.ask([rest[len(rest) - count :] + back for count in counts])

    kept = _lowest(None, len(rest), half, ends, zero=True)
    if kept > 0:
        start = len(rest) - kept
        _find_between(search, rest[start : start + 1], rest[start + 1 :], back)


def _find_between(search: _Search[T], front: _Positions, rest: _Positions, back: _Positions) -> None:
    """Find the needed elements of ``rest``, with those around it known."""
    found, passed = 0, 0  # needed elements found here; elements of the rest that are decided

    def beginnings(counts: Sequence[int]) -> int | None:
        return search.ask([front + rest[:count] + back for count in counts])

    while rest:
        expected = len(rest) * found / passed if found else 0.0
        step = int(_MEDIAN * passed / found) if found else len(rest) // 2
        all_known = found + 2 <= _FEW or expected < _LAST_ONE
        kept = _lowest(None, len(rest), max(step, 1), beginnings, zero=all_known)
        if kept == 0:
            return
        found, passed = found + 1, passed + len(rest) - kept + 1
        rest, back = rest[: kept - 1], rest[kept - 1 : kept] + back


def _take_away(search: _Search[T]) -> None:
    """Take parts, then single elements away from the back, until none can go.

    Parts go where only some sizes are interesting at all, such as the multiples of a number; powers of two fit best.
    """
    size = len(search.best)
    parts = [2**power for power in range(size.bit_length(), 0, -1) if size / _PARTS <= 2**power < size]
    for extent in [*parts, 1]:
        turn: int | None = 0
        while turn is not None:
            turn = _take_one(search, extent, turn)


def _take_one(search: _Search[T], size: int, turn: int) -> int | None:
    """Take one part away; returns its number from the back, where the next search begins, or None when none can go."""
    best = search.best
    stops = list(range(len(best), 0, -size))
    numbers = [*range(turn, len(stops)), *range(min(turn, len(stops)))]
    for begin in range(0, len(numbers), _GROUP):
        group = numbers[begin : begin + _GROUP]
        at = search.ask([best[: max(stops[number] - size, 0)] + best[stops[number] :] for number in group])
        if at is not None:
            return group[at]
    return None
