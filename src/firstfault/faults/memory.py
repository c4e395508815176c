"""What an out-of-memory message says in figures, and what they come to.

The messages are those of c10/cuda/CUDACachingAllocator.cpp (torch 1.0 to 2.14; ROCm's and XPU's are worded alike) and of
ATen/mps/MPSAllocator.mm.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

_UNITS = {
    "bytes": 1,
    "B": 1,
    "KiB": 2**10,
    "KB": 2**10,
    "MiB": 2**20,
    "MB": 2**20,
    "GiB": 2**30,
    "GB": 2**30,
    "TiB": 2**40,
}
_AMOUNT = r"(\d+(?:\.\d+)?) (bytes|[KMGT]?i?B)"
_WORDINGS = {
    "requested": rf"[Tt]ried to allocate {_AMOUNT}",
    "capacity": rf"total capaci?ty of {_AMOUNT}|{_AMOUNT} total capacity|max allowed: {_AMOUNT}",
    "free": rf"of which {_AMOUNT} is free|; {_AMOUNT} free",
    "allocated": rf"{_AMOUNT} is allocated by PyTorch|{_AMOUNT} already allocated|MPS allocated: {_AMOUNT}",
    "idle": rf"{_AMOUNT} is reserved by PyTorch but unallocated",
    "reserved": rf"{_AMOUNT} reserved in total by PyTorch|{_AMOUNT} cached",
}
_OTHERS = re.compile(rf"Process \d+ has {_AMOUNT} memory in use")
FRAGMENTED = (
    0.25  # share of what PyTorch holds that is reserved and unused, above which free pieces are too small
)
CROWDED = 0.25  # share of the device that other processes hold, above which they are worth a word


class Figures(NamedTuple):
    """Bytes, None where the message doesn't say. ``idle`` is reserved and not allocated; ``others`` other processes'."""

    requested: float | None = None
    capacity: float | None = None
    free: float | None = None
    allocated: float | None = None
    idle: float | None = None
    others: float = 0.0


def figures_of(message: str) -> Figures:
    """The figures in a message on exhausted memory."""
    read = {name: _first(re.search(wording, message)) for name, wording in _WORDINGS.items()}
    reserved = read.pop("reserved")
    if read["idle"] is None and reserved is not None and read["allocated"] is not None:
        read["idle"] = max(reserved - read["allocated"], 0.0)
    others = sum(_bytes(*found) for found in _OTHERS.findall(message))
    return Figures(**read, others=others)


def _first(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    number, unit = (group for group in match.groups() if group is not None)
    return _bytes(number, unit)


def _bytes(number: str, unit: str) -> float:
    return float(number) * _UNITS.get(unit, 1)


def size(count: float) -> str:
    """Bytes in the unit that a person would choose."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count >= _UNITS[unit]:
            return f"{count / _UNITS[unit]:.2f} {unit}"
    return f"{count:.0f} bytes"


def speaks(figures: Figures) -> list[str]:
    """What the figures come to, in words; only what they show."""
    said = []
    asked = figures.requested
    if asked is not None:
        parts = [f"asked for {size(asked)}"]
        parts += [
            f"{size(amount)} {what}"
            for amount, what in (
                (figures.free, "free"),
                (figures.allocated, "allocated"),
                (figures.idle, "reserved and unused"),
                (figures.capacity, "in all"),
            )
            if amount is not None
        ]
        said.append(", ".join(parts))
    if asked is not None and figures.capacity and asked > figures.capacity:
        said.append(
            "the request alone exceeds the device: look at the sizes that were asked for, not at what is held"
        )
    elif asked is not None and figures.free is not None and figures.free > asked:
        said.append(
            "more is free than was asked for: not a simple shortage (a limit, or another process just then)"
        )
    held = (figures.allocated or 0.0) + (figures.idle or 0.0)
    if (
        figures.idle
        and held
        and figures.idle / held > FRAGMENTED
        and (asked is None or figures.idle >= asked)
    ):
        share = round(100 * figures.idle / held)
        said.append(
            f"{share} % of what PyTorch holds is reserved and unused: fragmentation, or sizes that vary"
        )
    if figures.capacity and figures.others / figures.capacity > CROWDED and held < figures.others:
        said.append(f"other processes hold {size(figures.others)}")
    return said


def growth(history: Sequence[float]) -> str | None:
    """Whether memory grew steadily: a graph or a list that is held; None when it did not, or too little is known."""
    if len(history) < 4 or history[0] <= 0:
        return None
    half = len(history) // 2
    first, second = history[half] - history[0], history[-1] - history[half]
    rising = sum(later > earlier for earlier, later in itertools.pairwise(history)) / (len(history) - 1)
    if rising > 0.7 and second > 0.3 * first and history[-1] > 1.2 * history[0]:
        return f"memory grew to the end, from {size(history[0])} to {size(history[-1])}: something is held from step to step"
    return None
