"""Text from a case, made harmless for a terminal: a case may come from a stranger, and so may what a script prints."""

from __future__ import annotations

import unicodedata


def clean(text: str, *, lines: bool = False) -> str:
    """The text without control and direction-changing characters; line breaks stay only when ``lines``."""
    kept = []
    for character in text:
        if character == "\n" and lines:
            kept.append(character)
        elif character in "\n\t":
            kept.append(" ")
        elif unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co"):
            kept.append("\N{REPLACEMENT CHARACTER}")
        else:
            kept.append(character)
    return "".join(kept)
