"""A failure as it was seen: in a text that somebody pasted, or in a case. The rules look at nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from firstfault.case.schema import DeviceAssert, ExceptionInfo, Frame
from firstfault.trial.signature import unwrap_worker

MAX_QUOTE = 200  # characters of a failure that are quoted as evidence

# What torch appends to each message of a device, whatever happened; its words would be taken for another failure's.
_ADVICE = re.compile(
    r"(?:CUDA|HIP|XPU|GPU) kernel errors might be asynchronously reported.*?(?:might be incorrect\.?|$)"
    r"|For debugging,? consider passing \S+?(?=[.\s]|$)\.?"
    r"|Compile with [`'\"]?TORCH_USE_\w+_DSA[`'\"]? to enable device-side assertions\.?"
    r"|Search for [`']\w+' in \S+ for more information\.?"
    r"|\(Could this error message be improved\?.*?\)"
    r"|If reserved (?:memory is|but unallocated memory is).*?(?:fragmentation|$)",
)


class Place(NamedTuple):
    """One frame of a traceback; what isn't known is empty."""

    file: str
    function: str
    code: str

    def __str__(self) -> str:
        return f"{self.file} {self.function}: {self.code}"


class Sighting(NamedTuple):
    """One failure.

    ``type`` is the exception's name as shown, ``types`` that and the names of its bases. ``message`` has its white space
    folded and torch's standing advice taken out; for an assertion it is the condition. ``quote`` is what to show of it.

    ``position`` orders the failures of a text. Failures with the same ``chain`` followed from each other in one thread;
    ``stream`` names the process that printed them, where the text tells. ``warning``: the program went on.
    """

    kind: Literal["exception", "assertion", "log"]
    message: str
    quote: str
    type: str = ""
    types: tuple[str, ...] = ()
    frames: tuple[Place, ...] = ()
    position: int = 0
    chain: int = 0
    stream: str = ""
    warning: bool = False


def folded(message: str) -> str:
    """A message on one line, without the advice that torch gives with every error of a device."""
    return " ".join(_ADVICE.sub(" ", " ".join(message.split())).split())


def quoted(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_QUOTE else line[: MAX_QUOTE - 1] + "…"


def exception(type_: str, message: str, frames: Sequence[Place] = (), bases: Sequence[str] = ()) -> Sighting:
    """An exception; a DataLoader's wrapper around a worker's exception is taken off."""
    inner, said = unwrap_worker(type_, message)
    names = (inner,) if inner != type_ else (inner, *bases)
    first_lines = "\n".join(said.strip().split("\n")[:3])
    quote = quoted(f"{inner}: {first_lines}" if said.strip() else inner)
    return Sighting("exception", folded(said), quote, inner, names, tuple(frames))


def recorded(info: ExceptionInfo, frames: Sequence[Frame] = ()) -> Sighting:
    """An exception of a case."""
    places = [Place(frame.file, frame.function, frame.code or "") for frame in frames]
    return exception(info.type, info.message, places, info.bases)


def assertion(asserted: DeviceAssert) -> Sighting:
    """An assertion of a kernel, as ``'FILE KERNEL: CONDITION'``."""
    said = f"{asserted.file or ''} {asserted.kernel or ''}: {asserted.condition or ''}"
    times = f" ({asserted.count} threads)" if asserted.count > 1 else ""
    return Sighting("assertion", folded(said), quoted(asserted.text) + times)
