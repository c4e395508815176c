"""Device-side assertion lines, as CUDA, HIP and Triton print them on standard error."""

from __future__ import annotations

import re

from firstfault.case.schema import DeviceAssert

MAX_KEPT = 16  # different assertions of one failure
_TRIPLE = r"\[(\d+),\s*(\d+),\s*(\d+)\]"
# The CUDA driver's line; the condition is C++ source text and may hold back-quotes itself, so it is read to the last.
_CUDA = re.compile(
    rf"(?P<file>[^\s:\"']+(?:\.\w+)):(?P<line>\d+): (?P<kernel>.+?): block: {_TRIPLE}, thread: {_TRIPLE},? Assertion `(?P<condition>.*)` failed\."
)
# HIP with C10_USE_ROCM_KERNEL_ASSERT: no block and thread, an apostrophe at the end.
_HIP = re.compile(
    r"(?P<file>[^\s:\"']+\.\w+):(?P<line>\d+): (?P<kernel>.+?): Device-side assertion [`'](?P<condition>.*)['`] failed\."
)


def parse_device_asserts(text: str) -> tuple[DeviceAssert, ...]:
    """The assertions in a text, the first of each kind with the number of lines like it, in the order of appearance."""
    found: dict[tuple[str, str], DeviceAssert] = {}
    counts: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        parsed = _parse(line)
        if parsed is None:
            continue
        key = (parsed.file or "", parsed.condition or "")
        counts[key] = counts.get(key, 0) + 1
        if key not in found and len(found) < MAX_KEPT:
            found[key] = parsed
    return tuple(
        DeviceAssert(
            text=each.text, file=each.file, line=each.line, kernel=each.kernel, block=each.block, thread=each.thread,
            condition=each.condition, count=counts[key],
        )
        for key, each in found.items()
    )


def _parse(line: str) -> DeviceAssert | None:
    match = _CUDA.search(line)
    if match is not None:
        numbers = [int(group) for group in match.groups()[3:9]]
        return DeviceAssert(
            text=match[0],
            file=match["file"],
            line=int(match["line"]),
            kernel=match["kernel"],
            block=(numbers[0], numbers[1], numbers[2]),
            thread=(numbers[3], numbers[4], numbers[5]),
            condition=match["condition"],
        )
    match = _HIP.search(line)
    if match is not None:
        return DeviceAssert(text=match[0], file=match["file"], line=int(match["line"]), kernel=match["kernel"], condition=match["condition"])
    return None
