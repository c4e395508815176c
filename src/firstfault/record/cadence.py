"""How many batches the loop takes for one optimizer step, and which batches fell out of that rhythm.

A batch without a step is normal under gradient accumulation and a sign of a swallowed failure elsewhere.
"""

from __future__ import annotations

from collections import Counter, deque

from firstfault.case.schema import Unstepped
from firstfault.record.failure import plain

_MAX_KEPT = 50  # batches without a step that are named; the count goes on


class Cadence:
    """Counts batches between steps over one session."""

    __slots__ = ("gaps", "since", "suspects")

    def __init__(self) -> None:
        self.gaps: Counter[int] = Counter()
        self.since: list[tuple[int, int, int, object]] = []
        self.suspects: deque[tuple[int, list[tuple[int, int, int, object]]]] = deque(maxlen=_MAX_KEPT)

    def batch(self, loader: int, pass_: int, number: int, indices: object) -> None:
        """A batch was handed out by a loop that makes steps."""
        if len(self.since) < _MAX_KEPT:
            self.since.append((loader, pass_, number, indices))

    def step(self) -> None:
        """An optimizer step was completed for the batches since the last one."""
        gap = len(self.since)
        if gap:
            self.gaps[gap] += 1
            if gap > 1:
                self.suspects.append((gap, self.since))
            self.since = []

    def usual(self) -> int:
        """The usual number of batches a step; 0 while no step has followed a batch."""
        return self.gaps.most_common(1)[0][0] if self.gaps else 0

    def unstepped(self) -> tuple[Unstepped, ...]:
        """Batches that were handed out without a step though the rhythm says that each should have had one."""
        if self.usual() != 1:
            return ()
        out_of_rhythm = [batch for _, batches in self.suspects for batch in batches[:-1]] + self.since[:-1]
        return tuple(
            Unstepped(loader=loader, pass_=pass_, batch=number, indices=plain(indices) if indices else None)
            for loader, pass_, number, indices in out_of_rhythm[:_MAX_KEPT]
        )
