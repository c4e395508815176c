"""A case in words: the short phrases that the box, the terminal and the pages share."""

from __future__ import annotations

from pathlib import Path

from firstfault.case.schema import Case, Frame
from firstfault.report.clean import clean
from firstfault.trial.signature import unwrap_worker

_SHOWN_SAMPLES = 8


def what_failed(case: Case) -> str:
    """``'IndexError: Target 4 is out of bounds.'``: the first line of the exception, unwrapped from a worker's."""
    failure = case.failure
    if failure.exception is None:
        return {"nonfinite": "a value is not finite", "stalled": "the run stalled", "killed": "the process ended without a word"}.get(failure.kind, failure.kind)
    type_, message = unwrap_worker(failure.exception.type, failure.exception.message)
    first_line = clean((message.strip().splitlines() or [""])[0])
    return f"{clean(type_)}: {first_line}" if first_line else clean(type_)


def place(frame: Frame | None) -> str:
    """``'train.py:41 in main'``."""
    return "not in the user's own code" if frame is None else f"{clean(Path(frame.file).name)}:{frame.line} in {clean(frame.function)}"


def position(case: Case) -> str:
    """``'loader 0 (train_loader), pass 1, batch 34'``, all counted from 0; or that no loader was in use."""
    progress = case.progress
    if progress.loader is None:
        return "before any loader was used" if case.failure.phase == "setup" else "outside of any loop over a loader"
    loader = next((each for each in case.loaders if each.loader == progress.loader), None)
    name = f" ({clean(loader.name)})" if loader is not None and loader.name else ""
    return f"loader {progress.loader}{name}, pass {progress.pass_}, batch {progress.batch} (counted from 0)"


def samples(case: Case) -> str:
    """``'727, 1086, 878, … (16 samples)'``; the sample that was being read comes first."""
    batch = case.batch
    if batch is None or batch.indices is None:
        return f"{batch.size} samples without indices" if batch is not None and batch.size else "not recorded"
    shown = ", ".join(clean(str(index)) for index in batch.indices[:_SHOWN_SAMPLES])
    more = ", …" if len(batch.indices) > _SHOWN_SAMPLES else ""
    size = f"{len(batch.indices)} sample" + ("s" if len(batch.indices) != 1 else "")
    usual = f" of usually {batch.expected_size}" if batch.expected_size not in (None, len(batch.indices)) else ""
    return f"{shown}{more} ({size}{usual})"


def failing_sample(case: Case) -> str | None:
    """Which sample was being read, when the failure came from the data set."""
    fetch = case.failure.fetch
    if fetch is None:
        return None
    where = f" in worker {fetch.worker}" if fetch.worker is not None else ""
    if fetch.stage == "getitem" and fetch.sample is not None:
        return f"sample {clean(str(fetch.sample))} was being read{where}"
    return {"collate": f"the samples were being put together{where}", "init": f"the loader was starting{where}"}.get(fetch.stage, f"samples were being read{where}")


def phase(case: Case) -> str:
    return {
        "data": "while the batch was fetched",
        "forward": "in the forward pass",
        "backward": "in the backward pass",
        "optimizer": "in the optimizer",
        "validation": "in validation",
        "setup": "in the set-up",
        "other": "outside of the training step",
    }[case.failure.phase]


def steps(number: int) -> str:
    return "no step was completed" if number == 0 else f"{number:,} step{'s' if number != 1 else ''} completed"
