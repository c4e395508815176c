"""From one failure to its class: the rules of the catalogue, then whose code raised."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from firstfault.faults.catalogue import FAULTS, Fault, Rule
from firstfault.faults.sighting import Sighting
from firstfault.faults.stage import Stage, stage

_STAGES: dict[Stage, str] = {"getitem": "dataset_error", "collate": "collate"}


class Reading(NamedTuple):
    """A failure with the class that it was taken for. ``weak``: any other reading in the same text is believed more."""

    sighting: Sighting
    fault: Fault | None
    weak: bool = False
    rule: Rule | None = None


def recognise(sighting: Sighting) -> Reading:
    """The class of one failure; ``fault`` is None when no rule knows it.

    The exception's type is asked first, then its words. Among several wordings in one message the class nearest to the
    beginning of things counts (``Fault.late``), then the one that is read first.
    """
    fault, rule = _by_rules(sighting)
    weak = sighting.warning or (rule is not None and rule.weak)
    if sighting.kind != "exception":
        return Reading(sighting, fault, weak, rule)
    where = stage(sighting.frames)
    if where is None or (fault is not None and not weak and (fault.about_the_machine or fault.late)):
        return Reading(sighting, fault, weak, rule)
    return Reading(sighting, FAULTS[_STAGES[where]], sighting.warning)


def _by_rules(sighting: Sighting) -> tuple[Fault | None, Rule | None]:
    best: tuple[tuple[int, ...], Fault, Rule] | None = None
    for order, (fault, rule) in enumerate(_rules()):
        at = _found_at(rule, sighting)
        if at is None:
            continue
        rank = (rule.weak, rule.of != "type", fault.late, at, order)
        if best is None or rank < best[0]:
            best = rank, fault, rule
    return (best[1], best[2]) if best is not None else (None, None)


@functools.cache
def _rules() -> tuple[tuple[Fault, Rule], ...]:
    return tuple((fault, rule) for fault in FAULTS.values() for rule in fault.rules)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _found_at(rule: Rule, sighting: Sighting) -> int | None:
    """Where in the failure the rule is found: a place in the message, 0 for its type; None when it isn't."""
    if rule.of == "assertion":
        if sighting.kind != "assertion":
            return None
    elif rule.of == "log":
        if sighting.kind != "log":
            return None
    elif rule.of == "type":
        if not any(_compiled(rule.pattern).search(name) for name in sighting.types):
            return None
        return None if _refused(rule, sighting) else 0
    elif not _right_type(rule, sighting):
        return None
    found = _compiled(rule.pattern).search(sighting.message)
    if found is None or _refused(rule, sighting):
        return None
    return found.start()


def _right_type(rule: Rule, sighting: Sighting) -> bool:
    if rule.pattern == "" and sighting.kind != "exception":
        return False
    if rule.types is None or not sighting.types:
        return True
    types = _compiled(rule.types)
    return any(types.fullmatch(name) or types.fullmatch(name.rpartition(".")[2]) for name in sighting.types)


def _refused(rule: Rule, sighting: Sighting) -> bool:
    if rule.unless is not None and _compiled(rule.unless).search(sighting.message):
        return True
    if rule.at is not None:
        return not sighting.frames or not _compiled(rule.at).search(str(sighting.frames[-1]))
    if rule.through is not None:
        return not any(_compiled(rule.through).search(str(place)) for place in sighting.frames)
    return False
