"""What a trial's instruments may listen to while the script runs.

The feeder emits these in the trial's own process and thread; an instrument (an operator trace, a capture, coverage)
registers a listener while it is entered. Nothing here exists in a user's ordinary run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Listener(Protocol):
    """Called in this order for each fed batch; every method may be a no-op."""

    def sample_fetched(self, position: int, sample: Any, value: Any) -> None:
        """One sample came out of the data set; ``sample`` is its index, ``value`` what ``__getitem__`` returned."""

    def batch_handed_out(self, batch: Any, samples: Sequence[Any] | None) -> None:
        """The collated batch is about to reach the script; ``samples`` are its data-set indices, if it has any."""

    def failed(self, error: BaseException) -> None:
        """The first failure of the trial, with its traceback and its frames still alive."""


_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Register a listener; the returned function takes it off again."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def listening() -> bool:
    """Whether anyone listens (the feeder then fetches sample by sample)."""
    return bool(_listeners)


def sample_fetched(position: int, sample: Any, value: Any) -> None:
    for listener in _listeners:
        listener.sample_fetched(position, sample, value)


def batch_handed_out(batch: Any, samples: Sequence[Any] | None) -> None:
    for listener in _listeners:
        listener.batch_handed_out(batch, samples)


def failed(error: BaseException) -> None:
    for listener in _listeners:
        listener.failed(error)
