"""Whose code raised, when a batch was being made: the data set's, or the collate function's.

Read off the frames, since what a data set's code raises is a fault of a sample whatever its type and its words. The
frames are torch's fetcher (torch/utils/data/_utils/fetch.py, torch 1.2 to 2.14) or, before torch 1.2, its worker loop
(torch/utils/data/dataloader.py), where one line did both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from firstfault.faults.sighting import Place

Stage = Literal["getitem", "collate"]

_FETCHER = re.compile(r"torch[\\/]utils[\\/]data[\\/]_utils[\\/]fetch\.py")
_OLD_LOADER = re.compile(r"torch[\\/]utils[\\/]data[\\/]dataloader\.py")
_READS = re.compile(r"\bself\.dataset\[|\bdataset\[|__getitems__|next\(self\.dataset_iter\)")
_COLLATES = re.compile(r"\bcollate_fn\(")
_LIBRARY = re.compile(r"[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python\d")
# Libraries whose classes are data sets; elsewhere __getitem__ is a container's, an array's, a table's.
_LIBRARY_OF_DATA = re.compile(
    r"torch[\\/]utils[\\/]data[\\/]|torch(?:vision|audio|text)[\\/]datasets|torch_geometric[\\/]data"
)


def stage(frames: Sequence[Place]) -> Stage | None:
    """At which of the two the frames, outermost first, end; None when they pass through neither."""
    for number in range(len(frames) - 1, -1, -1):
        found = _at_fetcher(frames, number) or _by_function(frames[number])
        if found is not None:
            return found
    return None


def _at_fetcher(frames: Sequence[Place], number: int) -> Stage | None:
    frame = frames[number]
    after = frames[number + 1 :]
    old = _OLD_LOADER.search(frame.file) is not None
    if not old and not _FETCHER.search(frame.file):
        return None
    collates, reads = _COLLATES.search(frame.code), _READS.search(frame.code)
    if frame.function.startswith("<listcomp>") and (reads or not frame.code):
        return "getitem"
    if collates:
        return "collate" if after or not reads else None
    if reads:
        return "getitem"
    if old or not after:
        return None
    return "collate" if "collate" in after[0].function or "collate" in after[0].file else "getitem"


def _by_function(frame: Place) -> Stage | None:
    if _LIBRARY.search(frame.file) and not _LIBRARY_OF_DATA.search(frame.file):
        return "collate" if "collator" in frame.file else None
    if "collate" in frame.function.lower():
        return "collate"
    return "getitem" if frame.function.split("(")[0] in ("__getitem__", "__getitems__") else None
