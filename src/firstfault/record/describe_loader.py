"""A DataLoader as data, when it is first iterated."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from firstfault.case.schema import Frame, Loader
from firstfault.record import compat
from firstfault.record.frames import frame_of, owner_of


def loader_facts(loader: Any, number: int) -> Loader:
    """What a loader is made of. Nothing of the data is read; lengths are asked for and may be missing."""
    kind = type(loader)
    name, made_at = _who_iterates(loader)
    facts: dict[str, Any] = {}
    for field, read in (("length", lambda: len(loader.dataset)), ("batches", lambda: len(loader))):
        with contextlib.suppress(Exception):
            facts[field] = int(read())
    context = loader.multiprocessing_context
    sampler = type(loader.sampler).__name__
    batches = loader.batch_sampler
    return Loader(
        loader=number,
        name=name,
        kind=f"{kind.__module__}.{kind.__qualname__}",
        dataset=type(loader.dataset).__qualname__,
        iterable=compat.is_iterable(loader),
        batch_size=_whole_number(loader.batch_size) or _whole_number(getattr(batches, "batch_size", None)),
        workers=loader.num_workers,
        start_method=context.get_start_method() if context is not None else None,
        sampler=sampler,
        batch_sampler=type(batches).__name__ if batches is not None else None,
        drop_last=bool(loader.drop_last),
        shuffled=sampler == "RandomSampler",
        made_at=made_at,
        parts=_parts(loader.dataset),
        **facts,
    )


def _whole_number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _parts(dataset: Any) -> tuple[tuple[str, int], ...]:
    """The parts of a ConcatDataset as (name, length), so that a sample can be traced to the part it came from."""
    parts = getattr(dataset, "datasets", None)
    if type(dataset).__name__ != "ConcatDataset" or not isinstance(parts, (list, tuple)):
        return ()
    with contextlib.suppress(Exception):
        return tuple((f"{type(part).__qualname__} {number}", len(part)) for number, part in enumerate(parts))
    return ()


def _who_iterates(loader: Any) -> tuple[str | None, Frame | None]:
    """The loader's name in the user's code, and the line that first iterated it."""
    frame = sys._getframe(1)
    while owner_of(frame.f_code.co_filename) != "user":
        if frame.f_back is None:
            return None, None
        frame = frame.f_back
    made_at = frame_of(frame.f_code, frame.f_lineno)
    for names in (frame.f_locals, frame.f_globals):
        for name, value in names.items():
            if value is loader:
                return name, made_at
    owner = frame.f_locals.get("self")
    for name, value in getattr(owner, "__dict__", {}).items():
        if value is loader:
            return f"self.{name}", made_at
    return None, made_at
