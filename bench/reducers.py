"""How many questions a reducer asks until it knows the needed elements of a list.

Run: ``python bench/reducers.py``; with picire installed (``pip install picire``) its ddmin is measured beside ours, by
the same questions. Needed elements lie anywhere (``spread``) or side by side (``block``); the medians of 15 draws.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Sequence
from statistics import median

from firstfault.trial.reduce import one_by_one, smallest_subset

DRAWS = 15
CASES = [
    (32, 1), (32, 2), (50, 1), (50, 3), (50, 10), (50, 50), (200, 1), (200, 3), (200, 10), (200, 100),
    (1000, 1), (1000, 3), (1000, 10), (4096, 1), (4096, 2), (4096, 3),
]  # fmt: skip

Question = Callable[[Sequence[int]], bool]
Reducer = Callable[[int, Question], object]


def ours(size: int, interesting: Question) -> object:
    return smallest_subset(range(size), one_by_one(interesting))


def ddmin(size: int, interesting: Question) -> object:
    """picire as it comes: subsets and complements, both forwards."""
    return _picire(size, interesting)


def ddmin_backward(size: int, interesting: Question) -> object:
    """picire as its documentation advises: no subsets, complements from the back."""
    from picire import config_iterators

    return _picire(
        size,
        interesting,
        subset_iterator=config_iterators.skip,
        complement_iterator=config_iterators.backward,
    )


def _picire(size: int, interesting: Question, **settings: object) -> object:
    from picire import DD, Outcome

    return DD(lambda items, _: Outcome.FAIL if interesting(items) else Outcome.PASS, **settings)(
        list(range(size))
    )


def questions(reducer: Reducer, size: int, needed: Sequence[int]) -> int:
    """Different questions asked, without the one about everything, whose answer is known."""
    wanted, asked = set(needed), set()

    def interesting(items: Sequence[int]) -> bool:
        asked.add(tuple(items))
        return wanted <= set(items)

    reducer(size, interesting)
    return len(asked - {tuple(range(size))})


def spread(size: int, needed: int, source: random.Random) -> Sequence[int]:
    return source.sample(range(size), needed)


def block(size: int, needed: int, source: random.Random) -> Sequence[int]:
    start = source.randrange(size - needed + 1)
    return range(start, start + needed)


def main() -> None:
    reducers: list[Reducer] = [ours]
    if importlib.util.find_spec("picire") is not None:
        reducers += [ddmin, ddmin_backward]
    print(f"{'elements, needed':24}" + "".join(f"{reducer.__name__:>16}" for reducer in reducers))
    for place in (spread, block):
        for size, needed in CASES:
            counts = []
            for reducer in reducers:
                source = random.Random(1)
                counts.append(
                    median(questions(reducer, size, place(size, needed, source)) for _ in range(DRAWS))
                )
            print(f"{place.__name__:8}{size:6}, {needed:<8}" + "".join(f"{count:16}" for count in counts))


if __name__ == "__main__":
    main()
