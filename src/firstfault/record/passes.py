"""A pass over a DataLoader, as the main process sees it: what was issued to be fetched and what was handed out.

The sampler runs ahead of the loop when there are workers, so indices are kept by the number under which they were
sent and taken off when the batch comes out.
"""

from __future__ import annotations

import sys
import types
import weakref
from typing import Any

from firstfault.case.schema import Loader
from firstfault.record import compat
from firstfault.record.cadence import Cadence
from firstfault.record.frames import owner_of
from firstfault.record.rng import Sampler

_GENERATOR = 0x20  # inspect.CO_GENERATOR, without the cost of importing inspect
NOTHING: Any = object()  # no batch has been handed out (a batch itself may be None)


class LoaderState:
    """One DataLoader, numbered in the order in which loaders were first iterated."""

    __slots__ = ("cadence", "facts", "number", "passes", "usual_size")

    def __init__(self, facts: Loader) -> None:
        self.number = facts.loader
        self.facts = facts
        self.cadence = Cadence()
        self.passes = 0
        self.usual_size: int | None = facts.batch_size


class Pass:
    """One pass. ``batch`` is the batch in progress and ``batch_number`` its number; the reference is the only one kept."""

    __slots__ = (
        "_issued",
        "batch",
        "batch_number",
        "ended",
        "fetches_of",
        "indices",
        "issued_last",
        "iterator",
        "left_at",
        "loader",
        "number",
        "rng",
        "slots",
        "states_name",
        "steps_at_handout",
        "steps_at_start",
        "worker",
        "workers",
    )

    def __init__(self, loader: LoaderState, number: int, iterator: Any, workers: int, steps: int) -> None:
        self.loader = loader
        self.number = number
        self.workers = workers
        self.left_at: tuple[tuple[types.CodeType, int], ...] = ()
        self.iterator = weakref.ref(iterator, self._left)
        self.rng = Sampler()
        self.batch: Any = NOTHING
        self.batch_number = -1
        self.indices: Any = None
        self.issued_last: Any = None
        self.worker: int | None = None
        self.ended = False
        self.slots = 0
        self.states_name = f"{loader.number}-{number}"
        self.steps_at_start = steps
        self.steps_at_handout = steps
        self.fetches_of: dict[int, int] = {}
        self._issued: dict[int, Any] = {}

    @property
    def alive(self) -> bool:
        """Whether the loop over this pass is still going on: its iterator lives and is not exhausted."""
        return not self.ended and self.iterator() is not None

    def _left(self, _: Any) -> None:
        """The iterator dies: note where the user's code was."""
        frame: types.FrameType | None = sys._getframe(1)
        places: list[tuple[types.CodeType, int]] = []
        while frame is not None and len(places) < 2:
            if owner_of(frame.f_code.co_filename) == "user":
                places.append((frame.f_code, frame.f_lineno))
                if not frame.f_code.co_flags & _GENERATOR:
                    break
            frame = frame.f_back
        self.left_at = tuple(places)

    def was_in_progress(self, traceback: types.TracebackType | None) -> bool:
        """Whether the loop was going on when the exception with this traceback was raised.

        An exception that leaves a loop takes the loop's iterator along, like ``break`` does; but then the iterator
        died on a line that the traceback names.
        """
        if self.alive:
            return True
        if self.ended or not self.left_at:
            return False
        while traceback is not None:
            if (traceback.tb_frame.f_code, traceback.tb_lineno) in self.left_at:
                return True
            traceback = traceback.tb_next
        return False

    def issued(self, iterator: Any, index: Any) -> None:
        """The sampler gave out the indices of a batch that is to be fetched."""
        kept = tuple(index) if type(index) is list else index
        if self.loader.usual_size is None and type(kept) is tuple:
            self.loader.usual_size = len(kept)
        if self.workers:
            self._issued[compat.sent(iterator)] = kept
        else:
            self.issued_last = kept
            self.rng.take()

    def processed(self, worker: int) -> None:
        """A worker's result is about to be handed out, or its exception to be raised."""
        self.worker = worker
        self.fetches_of[worker] = self.fetches_of.get(worker, -1) + 1

    def taken(self, iterator: Any) -> Any:
        """The indices of the batch that just came out, or whose fetch just failed."""
        if not self.workers:
            return self.issued_last
        if compat.keeps_order(iterator):
            number = compat.received(iterator) - 1
            for older in [sent for sent in self._issued if sent < number]:
                del self._issued[older]
            return self._issued.pop(number, None)
        outstanding = compat.outstanding(iterator)
        for sent in self._issued:
            if sent not in outstanding:
                return self._issued.pop(sent)
        return None

    def next_to_come(self, iterator: Any) -> Any:
        """The indices of the batch that is waited for (a worker died or timed out before it came)."""
        if not self.workers:
            return self.issued_last
        return self._issued.get(compat.received(iterator))
