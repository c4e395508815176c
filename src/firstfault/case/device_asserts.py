"""Device-side assertion lines, as CUDA, HIP, SYCL and Triton print them on standard error.

A kernel can't raise: it prints what it refused, and the host learns of it later by a bare status. The line is the only
place that says which condition broke.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from firstfault.case.schema import DeviceAssert

MAX_KEPT = 16  # different assertions of one failure; a kernel has a handful
_TRIPLE = r"\[\s*\d+,\s*\d+,\s*\d+\s*\]"
_IN_BLOCK = rf"block: (?P<block>{_TRIPLE}), thread: (?P<thread>{_TRIPLE})"
_IN_GROUP = rf"global id: (?P<block>{_TRIPLE}), local id: (?P<thread>{_TRIPLE})"
# Keyed on the form, never on the folder or the line number, which drift between builds and releases. The drive letter is
# Windows', where the driver prints no function. The file starts anew within a line, because threads interleave.
_PLACE = r"(?P<file>(?:\b[A-Za-z]:)?[^\s:\"'`]+\.\w+):(?P<line>\d+): "
# The condition is C++ source text or a run-time message, may be empty and may hold back-quotes: it ends at "` failed".
_CONDITION = r"Assertion `(?P<condition>.*?)` failed"
_FORMS = (
    # The CUDA driver's line. Triton's tl.device_assert is lowered to the same call, with "unknown" for the function.
    re.compile(rf"{_PLACE}(?:(?P<kernel>[^`]+?): )?{_IN_BLOCK},? {_CONDITION}"),
    # CUDA_KERNEL_ASSERT_PRINTF (c10/macros/Macros.h, torch 2.14), printed before the driver's line, on standard output.
    re.compile(rf"{_PLACE}(?P<kernel>[^`]+?): {_IN_BLOCK}: Assertion failed: `(?P<condition>.*?)`"),
    # HIP built with C10_USE_ROCM_KERNEL_ASSERT: no block and thread, back-quote before and apostrophe after.
    re.compile(rf"{_PLACE}(?P<kernel>[^`]+?): Device-side assertion [`'](?P<condition>.*?)['`] failed"),
    # SYCL on XPU: global and local ids in place of block and thread.
    re.compile(rf"{_PLACE}(?:(?P<kernel>[^`]+?): )?{_IN_GROUP},? {_CONDITION}"),
)
_OLD_SIGNATURE = re.compile(
    r"([\w:~<>]+|operator\(\))\s*\("
)  # 'void kernel(float *, int) [with Dtype = float]'


def parse_device_asserts(text: str) -> tuple[DeviceAssert, ...]:
    """The assertions in a text, the first of each kind with the number of lines like it, in the order of appearance.

    Two lines are of a kind when the file's name and the condition are equal: thousands of threads may refuse the same thing.
    """
    found: dict[tuple[str, str], DeviceAssert] = {}
    counts: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        for each in _of_line(line):
            key = (re.split(r"[/\\]", each.file or "")[-1], each.condition or "")
            counts[key] = counts.get(key, 0) + 1
            if len(found) < MAX_KEPT:
                found.setdefault(key, each)
    return tuple(msgspec.structs.replace(each, count=counts[key]) for key, each in found.items())


def _of_line(line: str) -> Iterator[DeviceAssert]:
    if "ssertion" not in line:
        return
    matches = [match for form in _FORMS for match in form.finditer(line)]
    for match in sorted(matches, key=re.Match.start):
        named = match.groupdict()
        yield DeviceAssert(
            text=match[0] + ("." if line[match.end() :].startswith(".") else ""),
            file=match["file"],
            line=int(match["line"]),
            kernel=_function(named.get("kernel")),
            block=_ids(named.get("block")),
            thread=_ids(named.get("thread")),
            condition=match["condition"],
        )


def _ids(printed: str | None) -> tuple[int, int, int] | None:
    if printed is None:
        return None
    x, y, z = (int(number) for number in re.findall(r"\d+", printed))
    return x, y, z


def _function(printed: str | None) -> str | None:
    """The function's name alone: old builds print its whole signature."""
    if printed is None or printed == "unknown":
        return None
    signature = _OLD_SIGNATURE.search(printed) if " " in printed.strip() else None
    return signature[1] if signature else printed.strip()
