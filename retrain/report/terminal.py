"""Text from models and environments, made safe for a terminal and for line-based logs."""

from __future__ import annotations

import unicodedata

_BIDI_CONTROLS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


def printable(text: str, *, keep: str = "\n\t", escape: str = "") -> str:
    r"""Write control characters as escapes, so that printing `text` can do nothing but show it.

    Escaped are the C0 and C1 controls (among them ESC, carriage return and backspace), the
    bidirectional controls (which reorder what a reader sees), line and paragraph separators, and
    lone surrogates (which no encoding can write).

    Args:
        text: Text that a model, a tool or a user wrote.
        keep: Characters to leave alone although they are controls.
        escape: More characters to escape.

    Returns:
        The text, with "\\x1b" in place of ESC and so on.
    """
    return "".join(
        _escaped(char) if _is_unsafe(char, keep) or char in escape else char for char in text
    )


def one_line(text: str) -> str:
    r"""Like `printable`, with newlines and tabs written as "\\n" and "\\t" too."""
    return printable(text, keep="")


def _is_unsafe(char: str, keep: str) -> bool:
    if char in keep:
        return False
    return char in _BIDI_CONTROLS or unicodedata.category(char) in _UNSAFE_CATEGORIES


def _escaped(char: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if short is not None:
        return short
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
