"""What the tests of asynchronous devices ask of a trial."""

from __future__ import annotations

from pathlib import Path

import msgspec

from firstfault.case.findings import Locate
from firstfault.trial.outcome import Outcome

PLAIN = "firstfault.ops.locate:locate_instrument"
SYNCHRONISED = "firstfault.ops.locate:synchronized_instrument"


def seen(outcome: Outcome) -> str:
    """The line at which a trial's failure was seen."""
    assert outcome.failure is not None, outcome
    assert outcome.failure.seen is not None
    return outcome.failure.seen.code or ""


def located(outcome: Outcome) -> Locate:
    """What the instrument found in a trial."""
    assert outcome.folder is not None, outcome
    return msgspec.json.decode((Path(outcome.folder) / "locate.json").read_bytes(), type=Locate)
