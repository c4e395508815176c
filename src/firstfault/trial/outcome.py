"""How a trial ended.

A trial reports what it saw (``Ended``), never whether it is 'the same': that is decided by comparing signatures in the
process that asked (:mod:`firstfault.trial.signature`), at a strength that the asking step states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from firstfault.case.schema import Fact, Failure, Leaf, Progress

Ended = Literal["failed", "passed", "diverged", "invalid", "timed_out", "lost"]


class Outcome(Fact, frozen=True, kw_only=True):
    """One trial's end.

    ``ended``: ``failed`` with ``failure``; ``passed`` (the fed batches went through, or the program ended well);
    ``diverged`` (the script never came to the fed batch); ``invalid`` (the candidate could not be built); ``timed_out``;
    ``lost`` (the machinery failed, e.g. the process was killed from outside).
    ``reached`` tells whether the fed batch was handed out before the end. ``digest_fetched`` is the digest of the batch
    as handed out, ``digest_failed`` at the moment of the failure: they differ when the script changed it in place.
    ``signal`` is set when the process died of one. ``seconds`` is wall time from the trial's start.
    """

    ended: Ended
    failure: Failure | None = None
    progress: Progress | None = None
    reached: bool = False
    digest_fetched: str | None = None
    digest_failed: str | None = None
    leaves: tuple[Leaf, ...] = ()
    exit_code: int | None = None
    signal: int | None = None
    seconds: float = 0.0
    reason: str | None = None
    stderr_tail: str = ""
    folder: str | None = None


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Leave the outcome in the trial's folder, whole or not at all.

    Unlike a case it need not outlive a power cut, so nobody waits for the disk, which can take longer than the trial.
    """
    temporary = folder / "outcome.json.new"
    temporary.write_bytes(msgspec.json.encode(outcome))
    temporary.replace(folder / "outcome.json")
