"""A report as data: sections of blocks. What is said is decided once; terminal, Markdown and page only set it.

Texts are quoted from the case as they are. Each renderer makes them harmless in its own form. A figure carries a
sentence that says the same, for forms without pictures and for people who don't see them.
"""

from __future__ import annotations

from typing import Literal

from firstfault.case.schema import Fact

Kind = Literal["fact", "inference", "open question"]
Mark = Literal["", "good", "bad", "soft"]


class Pairs(Fact, frozen=True, kw_only=True, tag="pairs"):
    """Labelled lines."""

    rows: tuple[tuple[str, str], ...]


class Table(Fact, frozen=True, kw_only=True, tag="table"):
    """Rows under headings. ``marks`` set off whole rows, one mark a row; never the only sign of a meaning."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    marks: tuple[Mark, ...] = ()
    code: tuple[int, ...] = ()


class Code(Fact, frozen=True, kw_only=True, tag="code"):
    """A program or its output, set as it is. ``name`` is the file's."""

    text: str
    language: str = ""
    name: str = ""
    folded: str = ""


class Note(Fact, frozen=True, kw_only=True, tag="note"):
    """A paragraph."""

    text: str


class Statements(Fact, frozen=True, kw_only=True, tag="statements"):
    """Sentences of one kind: what is certain, what is inferred, what is open."""

    kind: Kind
    items: tuple[str, ...]


class Events(Fact, frozen=True, kw_only=True, tag="events"):
    """What happened, in order. The mark 'bad' is the first failure, 'soft' what followed from it."""

    rows: tuple[tuple[str, str, Mark], ...]


class Passes(Fact, frozen=True, kw_only=True, tag="passes"):
    """How far the run came: one bar a pass with its length in batches, the failing batch marked.

    ``bars`` holds (label, batches handed out, batches in the pass or None); ``marks`` (bar, batch, words, mark).
    """

    bars: tuple[tuple[str, int, int | None], ...]
    marks: tuple[tuple[int, int, str, Mark], ...]
    said: str


class Strip(Fact, frozen=True, kw_only=True, tag="strip"):
    """The samples of a batch in their order; the mark 'bad' is a sample at fault."""

    cells: tuple[tuple[str, Mark], ...]
    said: str


class Domain(Fact, frozen=True, kw_only=True, tag="domain"):
    """Values against what is allowed: (label, count, allowed or not), in the order of the values."""

    bars: tuple[tuple[str, int, bool], ...]
    said: str
    allowed: str


class Dots(Fact, frozen=True, kw_only=True, tag="dots"):
    """One trait of the failing batch among those of the other batches."""

    feature: str
    failing: float
    others: tuple[float, ...]
    said: str


class Line(Fact, frozen=True, kw_only=True, tag="line"):
    """A quantity over time: points of (seconds, bytes); ``limits`` are (label, bytes)."""

    points: tuple[tuple[float, float], ...]
    limits: tuple[tuple[str, float], ...] = ()
    said: str


class Shares(Fact, frozen=True, kw_only=True, tag="shares"):
    """Parts of wholes: (label, part, whole)."""

    rows: tuple[tuple[str, int, int], ...]
    said: str


Block = Pairs | Table | Code | Note | Statements | Events | Passes | Strip | Domain | Dots | Line | Shares


class Section(Fact, frozen=True, kw_only=True):
    """One section. ``kind`` says how much weight it bears; ``lead`` is its result in one line."""

    name: str
    title: str
    kind: Kind
    lead: str = ""
    blocks: tuple[Block, ...] = ()


class Glance(Fact, frozen=True, kw_only=True):
    """One figure for whoever looks for a second: ``value`` large, ``remark`` small."""

    label: str
    value: str
    remark: str = ""
    mark: Mark = ""


class Document(Fact, frozen=True, kw_only=True):
    """A whole report. ``sections`` come in the order of reading."""

    title: str
    subtitle: str
    glance: tuple[Glance, ...]
    sections: tuple[Section, ...]
