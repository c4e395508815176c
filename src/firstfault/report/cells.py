"""Text measured and wrapped by the columns that it takes on a terminal, where some characters take two and some none."""

from __future__ import annotations

import unicodedata


def width(text: str) -> int:
    """The number of columns."""
    return len(text) if text.isascii() else sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def padded(text: str, columns: int) -> str:
    """The text with blanks up to a number of columns."""
    return text + " " * max(columns - width(text), 0)


def wrapped(text: str, columns: int, most: int | None = None) -> list[str]:
    """Lines of at most ``columns``, broken at blanks and inside of words that are longer; at least one line.

    Lines beyond ``most`` are left out, and the last one kept ends in '…'.
    """
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if width(joined) <= columns:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        while width(word) > columns:
            head = _head(word, columns)
            lines[-1] = head
            lines.append("")
            word = word[len(head) :]
        lines[-1] = word
    lines = [line for line in lines if line] or [""]
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], _head(lines[most - 1], columns - 2) + " …"]
    return lines


def _head(word: str, columns: int) -> str:
    taken = 0
    for number, character in enumerate(word):
        taken += _cells(character)
        if taken > columns:
            return word[: max(number, 1)]
    return word
