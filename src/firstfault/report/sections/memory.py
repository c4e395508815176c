"""Memory: what was held at the failure, and how it grew."""

from __future__ import annotations

from firstfault.report import words
from firstfault.report.document import Block, Line, Section, Table
from firstfault.report.view import CaseView

_RESOURCE = ("out_of_memory", "host_memory")


def memory(view: CaseView) -> Section | None:
    """None when memory is not what the failure is about."""
    recorded = view.case.memory
    if view.explain.fault not in _RESOURCE:
        return None
    if recorded is None:
        return Section(name="memory", title="Memory", kind="open question", lead="Not recorded.")
    blocks: list[Block] = []
    if len(recorded.history) > 1:
        points = tuple((float(seconds), float(held)) for seconds, held in recorded.history)
        grown = points[-1][1] - points[0][1]
        said = (
            f"The process held {words.size(points[0][1])} after {words.duration(points[0][0])} and "
            f"{words.size(points[-1][1])} after {words.duration(points[-1][0])}: {_growth(grown)}."
        )
        limits = (("available", float(recorded.available)),) if recorded.available else ()
        blocks.append(Line(points=points, limits=limits, said=said))
    rows = [(name, words.size(value)) for name, value in _host(view) if value is not None]
    for device, figures in recorded.device.items():
        rows += [(f"{device} {name.replace('_', ' ')}", words.size(value)) for name, value in figures.items()]
    rows += [
        (f"{each.kind}:{each.index} in all", words.size(each.memory_bytes))
        for each in view.case.environment.devices
        if each.memory_bytes
    ]
    if rows:
        blocks.append(Table(columns=("memory", "size"), rows=tuple(rows)))
    return Section(
        name="memory",
        title="Memory",
        kind="fact",
        lead="At the failure, read without touching the device.",
        blocks=tuple(blocks),
    )


def _host(view: CaseView) -> tuple[tuple[str, int | None], ...]:
    recorded = view.case.memory
    assert recorded is not None
    return (
        ("process, now", recorded.rss),
        ("process, at most", recorded.peak_rss),
        ("host, still available", recorded.available),
    )


def _growth(grown: float) -> str:
    if abs(grown) < 2**20:
        return "no growth"
    return f"{words.size(abs(grown))} {'more' if grown > 0 else 'less'}"
