"""What the catalogue holds of a fault class, and the rules by which a failure is recognised. Rules are data.

To add a rule: put a :class:`Rule` into the class's file under ``classes/``, with the source that words it so and two
texts that were really met. The tests try every rule's texts by themselves.
"""

from __future__ import annotations

from typing import Literal

from firstfault.case.schema import Fact

Family = Literal["data", "contract", "numeric", "resource", "environment", "process", "unknown"]
Place = Literal["message", "type", "assertion", "log"]


class Rule(Fact, frozen=True, kw_only=True):
    """One wording of a class: a regular expression, searched for in one part of a failure.

    ``of`` says in which part. ``message``: an exception's message, or a line that some logger made of it; runs of white
    space are one space there. ``type``: the exception's qualified name, or the name of one of its bases. ``assertion``:
    ``'FILE KERNEL: CONDITION'`` of a device assertion. ``log``: a line outside of any exception.

    ``types`` narrows a message to exceptions of these types, where the type is known. ``through`` must be found in one of
    the traceback's frames, written as ``'FILE FUNCTION: CODE'``, ``at`` in the innermost one. ``unless`` must not be
    found in the message. A ``weak`` rule counts only where no other rule of any class does.

    ``source`` says who words it so, ``examples`` are texts that were met, as a person would paste them.
    """

    pattern: str
    source: str
    examples: tuple[str, ...] = ()
    of: Place = "message"
    types: str | None = None
    through: str | None = None
    at: str | None = None
    unless: str | None = None
    weak: bool = False


class Advice(Fact, frozen=True, kw_only=True):
    """What to say instead on one back end. None: as everywhere."""

    first_check: str | None = None
    avoid: str | None = None
    tell_apart: str | None = None


class Fault(Fact, frozen=True, kw_only=True):
    """One class of fault.

    ``also``: the classes that it is mistaken for, the likeliest first; ``tell_apart`` says what would decide. ``on`` holds
    other words for single back ends, ``backends`` those that the class occurs on (empty: all).

    ``late``: 0 for a class that says what went wrong; more, the further the class is from the beginning: it tells how a
    failure arrived (a status that an earlier kernel left behind, a dead worker, a peer that waited), and gives way to
    any class with a lower number in the same text. ``about_the_machine``: also when it comes up inside a data set's
    code, it isn't the data.
    """

    name: str
    family: Family
    title: str
    first_check: str
    avoid: str
    also: tuple[str, ...] = ()
    tell_apart: str = ""
    on: dict[str, Advice] = {}
    backends: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    late: int = 0
    about_the_machine: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the wordings of the class come from."""
        return tuple(dict.fromkeys(rule.source for rule in self.rules))

    @property
    def examples(self) -> tuple[str, ...]:
        """Texts of the class that were met."""
        return tuple(example for rule in self.rules for example in rule.examples)

    def advice(self, backend: str | None) -> Advice:
        """First check, conclusion to avoid and what tells apart, in the words of a back end."""
        own = self.on.get(backend or "", Advice())
        return Advice(
            first_check=own.first_check or self.first_check,
            avoid=own.avoid or self.avoid,
            tell_apart=own.tell_apart or self.tell_apart,
        )
