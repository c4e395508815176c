"""Text from a case, made harmless to show: a case may come from a stranger, and so may whatever a script prints."""

from __future__ import annotations

import unicodedata

MAX_SHOWN = 20_000  # characters of one text; a message may hold a whole printed tensor
# Control, format (also right-to-left overrides and zero-width characters), surrogate, private use; line and paragraph breaks.
_HARMFUL = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
# Join letters or emoji in ordinary writing, and can't reorder or hide anything.
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def clean(text: str, *, lines: bool = False) -> str:
    """The text without characters that steer a terminal or change the order in which text is read.

    Each becomes U+FFFD; tabs and line breaks become spaces, or with ``lines`` the breaks stay and a tab becomes four
    spaces. Longer texts than ``MAX_SHOWN`` are cut, which is said.
    """
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]} … ({len(text) - MAX_SHOWN:,} more characters)"
    if text.isprintable():
        return text
    return "".join(_harmless(character, lines) for character in text.replace("\r\n", "\n"))


def _harmless(character: str, lines: bool) -> str:
    if character == "\n":
        return "\n" if lines else " "
    if character == "\t":
        return "    " if lines else " "
    if unicodedata.category(character) in _HARMFUL and character not in _JOINERS:
        return "\N{REPLACEMENT CHARACTER}"
    return character
