"""Failures that the script handles and goes on from.

Handled exceptions are how Python programs look things up, so one alone proves nothing. It counts as the run's first
failure when it was raised in the middle of a batch and no optimizer step followed for that batch although torch itself
raised it, or every other batch had its step.
"""

from __future__ import annotations

from firstfault.record.failure import earlier, from_torch
from firstfault.record.passes import Pass
from firstfault.record.session import First, Session

_MAX_CAPTURES = 50  # handled exceptions that are looked at closely; each costs some milliseconds
_CONTROL_FLOW = (StopIteration, StopAsyncIteration, ImportError)


class Suspicion:
    """At most one handled exception under suspicion: the first of the batch in progress."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.candidate: First | None = None
        self.captures = 0

    def handled(self, error: BaseException) -> None:
        """The user's code handles an exception."""
        session = self.session
        if not session.on or session.first is not None or self.candidate is not None:
            return
        if not isinstance(error, Exception) or isinstance(error, _CONTROL_FLOW):
            return
        if self.captures >= _MAX_CAPTURES or session.in_progress(error) is None:
            return
        self.captures += 1
        with session.guarded("a handled exception could not be recorded"):
            from firstfault.record import writing

            candidate = session.failure_from(error, swallowed=True)
            writing.keep_batch(session, candidate)
            candidate.progress = writing.progress(
                session, candidate.failure, candidate.current, candidate.steps
            )
            self.candidate = candidate

    def batch_over(self, current: Pass) -> None:
        """The loop over ``current`` asks for its next batch, or has ended."""
        candidate = self.candidate
        if candidate is None or candidate.current is not current:
            return
        self.candidate = None
        if self._left_without_step(candidate):
            self.session.first = candidate
            self.session.confirmed(candidate)

    def resolve(self, final: BaseException | None) -> None:
        """The run ends, with ``final`` if it raised: settle what is still open."""
        candidate = self.candidate
        self.candidate = None
        if candidate is None or self.session.first is not None:
            return
        if final is not None and _in_chain(candidate.error, final):
            return  # it was handled and raised on: the chain of the final exception tells it
        if self._left_without_step(candidate):
            self.session.first = candidate

    def _left_without_step(self, candidate: First) -> bool:
        session = self.session
        if session.steps > max(candidate.steps, default=0):
            return False
        assert candidate.error is not None
        if from_torch(candidate.error):
            return True
        current = candidate.current
        makes_steps = current is not None and current.steps_at_start < session.steps
        return makes_steps and current is not None and current.loader.cadence.usual() == 1


def _in_chain(error: BaseException | None, final: BaseException) -> bool:
    seen: set[int] = set()
    current: BaseException | None = final
    while current is not None and id(current) not in seen:
        if current is error:
            return True
        seen.add(id(current))
        current = earlier(current) or current.__context__
    return False
