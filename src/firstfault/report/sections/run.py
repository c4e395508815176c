"""The run: how far it came, its first failure, and what followed from it."""

from __future__ import annotations

from collections import Counter

from firstfault.report import words
from firstfault.report.document import Block, Code, Events, Mark, Passes, Section
from firstfault.report.view import CaseView

_MOST_BARS = 8  # passes that are drawn; of a longer run the last ones
_MOST_UNSTEPPED = 12  # batches without a step that are marked
_MOST_CONSEQUENCES = 10
_MOST_LOADERS = 6


def run(view: CaseView) -> Section:
    """Timeline, consequences, and the traceback."""
    case = view.case
    blocks: list[Block] = []
    if (drawn := passes(view)) is not None:
        blocks.append(drawn)
    blocks.append(_events(view))
    if case.failure.frames:
        blocks.append(Code(text=traceback(view), language="text", folded="Traceback of the first failure"))
    return Section(name="run", title="The run", kind="fact", blocks=tuple(blocks))


def passes(view: CaseView) -> Passes | None:
    """The passes over the failing loader; None when the failure came outside of one."""
    progress = view.case.progress
    if progress.loader is None or progress.pass_ is None or progress.batch is None:
        return None
    loader = next((each for each in view.case.loaders if each.loader == progress.loader), None)
    length = loader.batches if loader is not None else None
    start = max(progress.pass_ - _MOST_BARS + 1, 0)
    bars = tuple(
        (f"pass {number}", progress.batch + 1 if number == progress.pass_ else length or 0, length)
        for number in range(start, progress.pass_ + 1)
        if number == progress.pass_ or length is not None
    )
    first_bar = progress.pass_ - len(bars) + 1
    marks: list[tuple[int, int, str, Mark]] = [(len(bars) - 1, progress.batch, "first failure", "bad")]
    for each in progress.unstepped[:_MOST_UNSTEPPED]:
        bar = each.pass_ - first_bar
        failing = (each.pass_, each.batch) == (progress.pass_, progress.batch)
        if each.loader == progress.loader and 0 <= bar < len(bars) and not failing:
            marks.append((bar, each.batch, "no step", "soft"))
    of = f" of {length:,}" if length is not None else ""
    said = f"The first failure came at batch {progress.batch}{of} in pass {progress.pass_} of {words.position(view.case).split(',')[0]}."
    return Passes(bars=bars, marks=tuple(marks), said=said)


def _events(view: CaseView) -> Events:
    case = view.case
    progress = case.progress
    rows: list[tuple[str, str, Mark]] = []
    for loader in case.loaders[:_MOST_LOADERS]:
        name = f"{loader.name}: " if loader.name else ""
        batches = (
            words.counted(loader.batches, "batch") + " each"
            if loader.batches is not None
            else "length not recorded"
        )
        rows.append(
            (f"loader {loader.loader}", f"{name}{words.counted(loader.passes, 'pass')} begun, {batches}", "")
        )
    if (rest := len(case.loaders) - _MOST_LOADERS) > 0:
        rows.append(("loaders", f"{rest} more", ""))
    done = words.steps(progress.last_completed_step)
    rows.append(("before", f"{words.counted(progress.handed_out, 'batch')} handed out, {done}", ""))
    for asserted in case.failure.device_asserts:
        times = f" (printed {asserted.count:,} times)" if asserted.count > 1 else ""
        rows.append(("on the device", asserted.text + times, "bad"))
    handled = ". The script handled it and went on." if case.failure.swallowed else ""
    rows.append(("first failure", f"{words.what_failed(case)}{handled}", "bad"))
    if progress.unstepped:
        numbers = words.listed([each.batch for each in progress.unstepped])
        rows.append(("no step", f"after batch {numbers}, though others had one", "soft"))
    alike = Counter(_consequence(each.exception) for each in case.failure.consequences)
    for text, count in list(alike.items())[:_MOST_CONSEQUENCES]:
        note = next(
            (each.note for each in case.failure.consequences if _consequence(each.exception) == text), None
        )
        times = f" ({count} times)" if count > 1 else ""
        rows.append(("consequence", f"{text}{times}" + (f": {note}" if note else ""), "soft"))
    return Events(rows=tuple(rows))


_consequence = words.exception_line


def traceback(view: CaseView) -> str:
    """The first failure's traceback, as Python prints it."""
    failure = view.case.failure
    lines = ["Traceback (most recent call last):"]
    for frame in failure.frames:
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}')
        if frame.code:
            lines.append(f"    {frame.code.strip()}")
    if failure.exception is not None:
        lines.append(words.full_message(failure.exception))
    return "\n".join(lines)
