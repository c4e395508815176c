"""What a step may spend: seconds, trials, or both."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from firstfault.errors import UsageError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[smh])")


def parse_budget(text: str) -> tuple[float | None, int | None]:
    """Seconds and trials of a ``--budget``: ``60s``, ``5m``, ``200`` (trials), or ``60s,200`` (whichever ends first).

    >>> parse_budget("5m")
    (300.0, None)

    Raises:
        UsageError: the text is neither, or allows nothing at all.
    """
    seconds: float | None = None
    trials: int | None = None
    for part in (each.strip() for each in text.split(",")):
        time_ = _SECONDS.fullmatch(part)
        if time_ is not None and seconds is None:
            seconds = float(time_["number"]) * _UNITS[time_["unit"]]
        elif part.isascii() and part.isdigit() and trials is None:
            trials = int(part)
        else:
            raise UsageError(
                f"--budget {text!r} is neither a time nor a number of trials; write 60s, 5m, 200 or 60s,200"
            )
    if seconds == 0 or trials == 0:
        raise UsageError(f"--budget {text!r} allows no trial at all; leave it out, or give more")
    return seconds, trials


class Budget:
    """A budget that runs from the moment it is made.

    Args:
        seconds: of wall time; None for any.
        trials: executed ones; None for any.
        count: how many trials have been executed so far, in all; usually ``lambda: engine.trials``.
    """

    def __init__(
        self, seconds: float | None = None, trials: int | None = None, *, count: Callable[[], int] = lambda: 0
    ) -> None:
        self.seconds = seconds
        self.trials = trials
        self._count = count
        self._begun = time.monotonic()
        self._before = count()

    @property
    def spent(self) -> tuple[float, int]:
        """Seconds and trials so far."""
        return time.monotonic() - self._begun, self._count() - self._before

    def left(self) -> bool:
        """Whether another trial may be begun."""
        seconds, trials = self.spent
        return not (self.seconds is not None and seconds >= self.seconds) and not (
            self.trials is not None and trials >= self.trials
        )

    def seconds_left(self) -> float | None:
        """Wall time that is left; None when there is no limit."""
        return None if self.seconds is None else max(self.seconds - self.spent[0], 0.0)
