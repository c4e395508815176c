"""A case in words: the short phrases that the box, the terminal and the pages share.

What comes from the case is quoted as it is; whoever shows a phrase makes it harmless (:mod:`firstfault.case.clean`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from firstfault.case.schema import Case, ExceptionInfo, Frame
from firstfault.trial.signature import unwrap_worker

_SHOWN_SAMPLES = 8
_KINDS = {
    "nonfinite": "a value is not finite",
    "stalled": "the run stalled",
    "killed": "the process ended without a word",
}
_PHASES = {
    "data": "while the batch was fetched",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer",
    "validation": "in validation",
    "setup": "in the set-up",
    "other": "outside of the training step",
}
_OUTCOMES = {
    "same": "same failure",
    "other": "another failure",
    "passed": "went through",
    "diverged": "took another way",
    "invalid": "could not be built",
    "timed_out": "timed out",
    "lost": "lost (the trial itself failed)",
    "not applicable": "not applicable",
}
_BACKENDS = {"cpu": "CPU", "cuda": "CUDA", "rocm": "ROCm", "mps": "MPS", "xpu": "XPU"}


def exception_line(exception: ExceptionInfo) -> str:
    """``'IndexError: Target 4 is out of bounds.'``: the first line, unwrapped from a worker's."""
    type_, message = unwrap_worker(exception.type, exception.message)
    first_line = first(message)
    return f"{type_}: {first_line}" if first_line else type_


def what_failed(case: Case) -> str:
    """The first line of the failure's exception, or what else came to light."""
    failure = case.failure
    if failure.exception is None:
        return _KINDS.get(failure.kind, failure.kind)
    return exception_line(failure.exception)


def full_message(exception: ExceptionInfo) -> str:
    """Type and message with all lines, unwrapped from a worker's."""
    type_, message = unwrap_worker(exception.type, exception.message)
    return f"{type_}: {message}" if message.strip() else type_


def first(text: str) -> str:
    """The first line of a text, with the next one where the first ends in a colon."""
    lines = [line.strip() for line in text.strip().splitlines()] or [""]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def file_name(path: str) -> str:
    """The last part of a path of any system."""
    return re.split(r"[/\\]", path)[-1]


def place(frame: Frame | None) -> str:
    """``'train.py:41 in main'``."""
    return (
        "not in the user's own code"
        if frame is None
        else f"{file_name(frame.file)}:{frame.line} in {frame.function}"
    )


def position(case: Case) -> str:
    """``'loader 0 (train_loader), pass 1, batch 34 (counted from 0)'``; or that no loader was in use."""
    progress = case.progress
    if progress.loader is None:
        return (
            "before any loader was used"
            if case.failure.phase == "setup"
            else "outside of any loop over a loader"
        )
    loader = next((each for each in case.loaders if each.loader == progress.loader), None)
    name = f" ({loader.name})" if loader is not None and loader.name else ""
    return f"loader {progress.loader}{name}, pass {_number(progress.pass_)}, batch {_number(progress.batch)} (counted from 0)"


def _number(value: int | None) -> str:
    return "not recorded" if value is None else str(value)


def samples(case: Case) -> str:
    """``'727, 1086, 878, … (16 samples)'``, the first few of the batch."""
    batch = case.batch
    if batch is None or batch.indices is None:
        return f"{batch.size} samples without indices" if batch is not None and batch.size else "not recorded"
    shown = ", ".join(str(index) for index in batch.indices[:_SHOWN_SAMPLES])
    more = ", …" if len(batch.indices) > _SHOWN_SAMPLES else ""
    usual = (
        f" of usually {batch.expected_size}" if batch.expected_size not in (None, len(batch.indices)) else ""
    )
    return f"{shown}{more} ({counted(len(batch.indices), 'sample')}{usual})"


def failing_sample(case: Case) -> str | None:
    """Which sample was being read, when the failure came from the data set."""
    fetch = case.failure.fetch
    if fetch is None:
        return None
    where = f" in worker {fetch.worker}" if fetch.worker is not None else ""
    if fetch.stage == "getitem" and fetch.sample is not None:
        return f"sample {fetch.sample} was being read{where}"
    return {
        "collate": f"the samples were being put together{where}",
        "init": f"the loader was starting{where}",
    }.get(fetch.stage, f"samples were being read{where}")


def phase(case: Case) -> str:
    return _PHASES[case.failure.phase]


def steps(number: int) -> str:
    return "no step was completed" if number == 0 else f"{counted(number, 'step')} completed"


def outcome(name: str) -> str:
    """A trial's outcome as a person says it."""
    return _OUTCOMES.get(name, name.replace("_", " "))


def backend(name: str) -> str:
    return _BACKENDS.get(name, name)


def counted(number: int, noun: str) -> str:
    """``'1 sample'``, ``'16 samples'``, ``'1,200 batches'``."""
    plural = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def listed(values: Sequence[Any], most: int = _SHOWN_SAMPLES) -> str:
    """``'3, 17, 20'``, cut to the first few with how many there are."""
    shown = ", ".join(str(value) for value in values[:most])
    return f"{shown}, … ({len(values):,} in all)" if len(values) > most else shown


def size(number: float) -> str:
    """``'1.5 GiB'`` of a number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"


def duration(seconds: float) -> str:
    """``'0.4 s'``, ``'12 s'``, ``'3 min 20 s'``."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def tensor(dtype: str | None, shape: Sequence[int] | None, device: str | None = None) -> str:
    """``'float32[16, 4] on cpu'``."""
    extent = "" if shape is None else str(list(shape))
    return f"{dtype or 'tensor'}{extent}" + (f" on {device}" if device else "")


def reported_late(case: Case) -> bool:
    """Whether the device told of the failure later than it came about, so that the line is not where it began."""
    asserted = bool(case.failure.device_asserts) or "device-side assert" in what_failed(case)
    return asserted and case.environment.backend in ("cuda", "rocm")


# Steps that have a command of their own; a report sends nobody to one that doesn't exist.
COMMANDS = ("replay", "locate", "explain", "shrink", "investigate")


def next_command(step: str) -> str | None:
    """The command for a step, or None when there is none yet."""
    return f"firstfault {step}" if step in COMMANDS else None
