"""What makes two failures the same: fault kind, exception type, masked message, operator, the user's frame.

Two failures are compared field by field at a named strength; a step that shrinks or varies states the strength that it
used, so that it can't slip to another fault.
"""

from __future__ import annotations

import re
from typing import Literal

from firstfault.case.schema import Fact, Failure

Strength = Literal["frame", "message", "type"]

_WORKER_WRAPPER = re.compile(
    r"\ACaught \S+ in DataLoader worker process \d+\.\s*\nOriginal Traceback[^\n]*\n(?P<body>.*)\Z", re.DOTALL
)
_AFTER_LAST_FRAME = re.compile(
    r'\A(?:.*\n)?  File "[^\n]*\n(?:[ \t]+[^\n]*\n|\n)*(?P<rest>\S.*)\Z', re.DOTALL
)
_NUMBER = r"\d+\.?\d*(?:[eE][-+]?\d+)?"
_MASKS = (
    (re.compile(r"0x[0-9a-fA-F]+"), "<address>"),
    (re.compile(r"(?:[A-Za-z]:)?[/\\](?:[\w.+-]+[/\\])+"), "<folder>/"),
    (re.compile(rf"(?<![A-Za-z_\d.])[-+]?{_NUMBER}(?:x{_NUMBER})*(?![A-Za-z_\d])"), "<n>"),
    (re.compile(r"<n>(?:, ?<n>)+,?"), "<n>"),
)


class Signature(Fact, frozen=True, kw_only=True):
    """The comparable part of a failure. ``message`` is masked: numbers, addresses and folders don't count.

    ``nonfinite`` keeps NaN, +Inf and -Inf apart. ``where`` is ``'file name:function'`` of the innermost user frame,
    without the line, which moves when code above it changes.
    """

    kind: str
    type: str = ""
    message: str = ""
    operator: str = ""
    where: str = ""
    phase: str = ""
    nonfinite: str = ""

    def __str__(self) -> str:
        parts = [self.type or self.kind]
        if self.message:
            parts.append(self.message.splitlines()[0][:160])
        if self.where:
            parts.append(f"in {self.where}")
        return " · ".join(parts)


def mask(message: str) -> str:
    """The message with what varies from run to run replaced: numbers, shapes, addresses, folders."""
    for pattern, replacement in _MASKS:
        message = pattern.sub(replacement, message)
    return message.strip()


def unwrap_worker(type_: str, message: str) -> tuple[str, str]:
    """The exception inside a DataLoader worker's wrapper, so that emulated and real workers compare equal.

    torch.utils.data re-raises a worker's exception with a message that holds the whole original traceback
    (torch/_utils.py, ExceptionWrapper.reraise, torch 2.13).
    """
    wrapped = _WORKER_WRAPPER.match(message)
    if wrapped is None:
        return type_, message
    found = _AFTER_LAST_FRAME.match(wrapped["body"].rstrip())
    if found is None:
        return type_, wrapped["body"].strip()
    inner_type, _, inner_message = found["rest"].partition(": ")
    return (inner_type, inner_message) if re.fullmatch(r"[\w.]+", inner_type) else (type_, found["rest"])


def nonfinite_kind(text: str) -> str:
    """``'nan'``, ``'+inf'`` or ``'-inf'`` when the text names one, else an empty string."""
    found = re.search(r"(?<![\w.])([-+]?)(nan|inf)(?:inity)?(?!\w)", text, re.IGNORECASE)
    if found is None:
        return ""
    if found[2].lower() == "nan":
        return "nan"
    return "-inf" if found[1] == "-" else "+inf"


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def signature(failure: Failure, operator: str = "") -> Signature:
    """The signature of a recorded failure; ``operator`` is filled in once it has been located."""
    where = ""
    if failure.seen is not None:
        where = f"{_file_name(failure.seen.file)}:{failure.seen.function}"
    if failure.exception is None:
        return Signature(kind=failure.kind, operator=operator, where=where, phase=failure.phase)
    type_, message = unwrap_worker(failure.exception.type, failure.exception.message)
    return Signature(
        kind=failure.kind,
        type=type_,
        message=mask(message),
        operator=operator,
        where=where,
        phase=failure.phase,
        nonfinite=nonfinite_kind(message),
    )


def same(one: Signature, other: Signature, strength: Strength = "message") -> bool:
    """Whether two failures are the same at a strength.

    ``frame`` compares everything but the phase, the operator only where both know it; ``message`` leaves the frame out
    too (reducers change the code around the failure); ``type`` compares the kind, the exception's type and which
    non-finite value only.
    """
    if (one.kind, one.type, one.nonfinite) != (other.kind, other.type, other.nonfinite):
        return False
    if strength == "type":
        return True
    if one.message != other.message or (one.operator and other.operator and one.operator != other.operator):
        return False
    return strength == "message" or one.where == other.where
