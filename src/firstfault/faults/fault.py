"""What the catalogue holds of a fault class, and the rules by which a text is recognised. Rules are data."""

from __future__ import annotations

import re
from typing import Literal

from firstfault.case.schema import Fact

Family = Literal["data", "contract", "numeric", "resource", "environment", "process", "unknown"]


class Rule(Fact, frozen=True, kw_only=True):
    """A regular expression over an error's text. ``source`` says where torch words it so.

    ``only_with`` must be found in the whole text too, ``never_with`` must not.
    """

    pattern: str
    source: str
    only_with: str | None = None
    never_with: str | None = None

    def search(self, text: str, whole: str) -> re.Match[str] | None:
        if self.only_with is not None and not re.search(self.only_with, whole, re.IGNORECASE):
            return None
        if self.never_with is not None and re.search(self.never_with, whole, re.IGNORECASE):
            return None
        return re.search(self.pattern, text, re.IGNORECASE)


class Fault(Fact, frozen=True, kw_only=True):
    """One class. ``late`` classes follow from other failures, so any other class in the same text comes first."""

    name: str
    family: Family
    title: str
    first_check: str
    avoid: str
    also: tuple[str, ...] = ()
    tell_apart: str = ""
    backends: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    late: bool = False
