"""Figures as inline SVG. Places across are percentages, so a figure fits any width and its text keeps its size.

Colours come from the page's style sheet by class; what a colour says is always said in words too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from markupsafe import Markup

from firstfault.case.clean import clean
from firstfault.report import words
from firstfault.report.document import Domain as DomainBlock
from firstfault.report.document import Dots, Line, Passes, Shares

_ROW = 38  # pixels that a bar with its label takes
_BAR = 12
_LONGEST = 48  # characters of a label; a longer one is in the caption or the table


def passes(block: Passes) -> Markup:
    """A bar a pass, as long as its batches, filled as far as the run came, with the marked batches on it."""
    longest = max(max(done, whole or 0, 1) for _, done, whole in block.bars)
    parts = []
    top = 18.0
    for number, (label, done, whole) in enumerate(block.bars):
        marks = sorted(
            (mark == "bad", 100 * (batch + 0.5) / longest, said, mark)
            for bar, batch, said, mark in block.marks
            if bar == number
        )
        parts.append(_text(0, top - 6, label, "label"))
        extent = f"{done:,} of {whole:,} batches" if whole is not None else words.counted(done, "batch")
        parts.append(_text(100, top - 6, extent, "label", "end"))
        parts.append(_rect(0, top, 100 * (whole or done) / longest, _BAR, "track"))
        parts.append(_rect(0, top, 100 * done / longest, _BAR, "done"))
        parts += [_tick(at, top, said, sign) for _, at, said, sign in marks]
        top += _ROW + (14 if any(bad for bad, *_ in marks) else 0)
    return _svg(block.said, top - 14, parts)


def _tick(at: float, top: float, said: str, mark: str) -> Markup:
    """A marked batch: a tick on the bar, and its words below, on the side where there is room."""
    side = "end" if at > 60 else "start"
    name = _text(at, top + 26, said, f"mark {mark}", side) if mark == "bad" else Markup("")
    line = Markup(
        '<line x1="{0:.2f}%" x2="{0:.2f}%" y1="{1}" y2="{2}" class="tick {3}"><title>{4}</title></line>'
    )
    return line.format(at, top - 3, top + 15, mark, clean(said)) + name


def domain(block: DomainBlock) -> Markup:
    """A column a value, those that are not allowed hatched (the page defines how) and named; without counts, places."""
    counted = any(count for _, count, good in block.bars if good)
    highest = max((count for _, count, _ in block.bars), default=0) or 1
    height = 120 if counted else 34
    step = 100 / max(len(block.bars), 1)
    parts = []
    for number, (label, count, good) in enumerate(block.bars):
        tall = max(height * count / highest, 3 if count else 0) if counted else height
        top = 22 + height - tall
        kind = "allowed" if good else "outside"
        parts.append(
            _rect(
                number * step + step * 0.12,
                top,
                step * 0.76,
                tall,
                kind if count or not counted else f"{kind} empty",
            )
        )
        middle = (number + 0.5) * step
        if counted:
            parts.append(_text(middle, top - 5, f"{count:,}", "count", "middle"))
        parts.append(_text(middle, 22 + height + 16, label, "value" if good else "value bad", "middle"))
        if not good:
            parts.append(
                _text(
                    middle,
                    22 + height + 31,
                    "not allowed" if len(block.bars) < 9 else "✕",
                    "mark bad",
                    "middle",
                )
            )
    return _svg(block.said, height + 60, parts)


def dots(block: Dots) -> Markup:
    """The other batches as dots, heaped where they lie close; the failing one as a diamond."""
    values = [value for value in (*block.others, block.failing) if math.isfinite(value)]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)

    def place(value: float) -> float:
        """Per cent across; a value that is not finite lies at the right end."""
        return 3 + 94 * (value - low) / ((high - low) or 1.0) if math.isfinite(value) else 97.0

    heaps: dict[int, list[float]] = {}
    for value in block.others:
        if math.isfinite(value):
            heaps.setdefault(round(place(value)), []).append(value)
    tallest = max((len(heap) for heap in heaps.values()), default=1)
    step = min(5.0, 60 / tallest)
    ground = max(tallest * step, 16) + 22
    parts = [Markup('<line x1="0" x2="100%" y1="{0:.1f}" y2="{0:.1f}" class="axis"/>').format(ground)]
    for heap in heaps.values():
        for level, value in enumerate(sorted(heap)):
            dot = Markup('<circle cx="{:.2f}%" cy="{:.1f}" r="3" class="other"/>')
            parts.append(dot.format(place(value), ground - 5 - level * step))
    at = place(block.failing)
    diamond = Markup(
        '<svg x="{:.2f}%" y="{:.1f}" overflow="visible"><path d="M0 -8 L8 0 L0 8 L-8 0 Z" class="failing"/></svg>'
    )
    parts.append(diamond.format(at, ground - 9))
    parts.append(
        _text(
            at,
            ground - 22,
            "failing batch",
            "mark bad",
            "end" if at > 70 else "start" if at < 30 else "middle",
        )
    )
    parts.append(_text(0, ground + 16, _short(low), "value"))
    parts.append(_text(100, ground + 16, _short(high), "value", "end"))
    return _svg(block.said, ground + 20, parts)


def line(block: Line) -> Markup:
    """A quantity over time, from nought; limits as dashed lines."""
    last = max((seconds for seconds, _ in block.points), default=0) or 1.0
    top = max(max((held for _, held in block.points), default=0), 1.0) * 1.08
    path = " ".join(
        f"{100 * seconds / last:.2f},{100 - 100 * held / top:.2f}" for seconds, held in block.points
    )
    area = f"0,100 {path} {100 * block.points[-1][0] / last:.2f},100" if block.points else ""
    parts = [
        Markup(
            '<svg x="0" y="16" width="100%" height="140" viewBox="0 0 100 100" preserveAspectRatio="none"><polygon points="{}" class="area"/><polyline points="{}" class="curve"/></svg>'
        ).format(area, path),
        Markup('<line x1="0" x2="100%" y1="156" y2="156" class="axis"/>'),
        _text(0, 12, words.size(top / 1.08), "value"),
        _text(0, 172, "0 s", "value"),
        _text(100, 172, f"{words.duration(last)}: first failure", "mark bad", "end"),
        Markup('<line x1="99.9%" x2="99.9%" y1="16" y2="156" class="tick bad"/>'),
    ]
    for label, value in block.limits:
        if value <= top:
            at = 16 + 140 * (1 - value / top)
            parts.append(
                Markup('<line x1="0" x2="100%" y1="{0:.1f}" y2="{0:.1f}" class="limit"/>').format(at)
            )
            parts.append(_text(1, at - 4, f"{label}: {words.size(value)}", "value"))
    return _svg(block.said, 180, parts)


def shares(block: Shares) -> Markup:
    """A bar a whole, with its part filled; the longest whole takes the width."""
    longest = max((whole for _, _, whole in block.rows), default=0) or 1
    parts = []
    for number, (label, part, whole) in enumerate(block.rows):
        top = number * _ROW + 18
        share = f" ({part / whole:.1%})" if whole else ""
        parts.append(_text(0, top - 6, label, "label"))
        parts.append(_text(100, top - 6, f"{part:,} of {whole:,}{share}", "label", "end"))
        parts.append(_rect(0, top, 100 * whole / longest, _BAR, "track"))
        if part:
            parts.append(_rect(0, top, max(100 * part / longest, 0.6), _BAR, "outside"))
    return _svg(block.said, len(block.rows) * _ROW - 4, parts)


def _svg(said: str, height: float, parts: Iterable[Markup]) -> Markup:
    head = Markup('<svg role="img" aria-label="{}" width="100%" height="{:.0f}" class="plot">').format(
        clean(said), height
    )
    return head + Markup("").join(parts) + Markup("</svg>")


def _rect(left: float, top: float, width: float, height: float, kind: str) -> Markup:
    return Markup('<rect x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}" rx="2" class="{}"/>').format(
        left, top, width, height, kind
    )


def _text(at: float, y: float, said: str, kind: str, anchor: str = "start") -> Markup:
    shown = clean(said) if len(said) <= _LONGEST else clean(said[: _LONGEST - 1]) + "…"
    text = Markup('<text x="{:.2f}%" y="{:.1f}" text-anchor="{}" class="{}">{}</text>')
    return text.format(at, y, anchor, kind, shown)


def _short(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.4g}"
