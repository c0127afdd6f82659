r"""The two ways in which slime writes answers alike, found from the scores that it gives.

`by_letter` keeps LaTeX and works on its letters; `written_for_sympy` turns an answer into what
sympy can read. Both remove white space, so that `1 234` is 1234.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

_TEXT = re.compile(r"\\text\{(.+?)\}")
_CUT_OFF = re.compile(r"\\(frac|sqrt) *$|\\frac *(?=\\frac)")
_UNITS = (
    *("degree", "cm", "centimeter", "meter", "mile", "second", "minute", "hour"),
    *("day", "week", "month", "year", "foot", "feet", "inch", "yard"),
)
_POWERS_OF_TEN = {"million": 6, "billion": 9, "trillion": 12}
_SIGNS = {
    "\N{SQUARE ROOT}": "sqrt",
    "\N{GREEK SMALL LETTER PI}": "pi",
    "\N{INFINITY}": "inf",
    "\N{UNION}": "U",
    "\N{MIDDLE DOT}": "*",
    "\N{MULTIPLICATION SIGN}": "*",
}
_THOUSANDS = re.compile(r"(\d),(\d\d\d)(?=$|\D)")
_HAIR = 1e-7


def by_letter(answer: str) -> str:
    r"""An answer with one spelling for what LaTeX spells in several ways.

    One that ends on `\\frac` or `\\sqrt` stays as it is.
    """
    text = _unwrapped(answer.strip()).replace("\n", "").replace("\\!", "").replace("\\\\", "\\")
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    for gone in ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$"):
        text = text.replace(gone, "")
    text = _without_unit(text).replace("\\%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    text = f"0{text}" if text.startswith(".") else text
    name, equals, value = text.partition("=")
    if equals and "=" not in value and len(name) <= 2:
        text = value
    if _CUT_OFF.search(text):
        return answer
    text = re.sub(r"\\sqrt(?!\{)(.)", r"\\sqrt{\1}", text).replace(" ", "")
    text = _braced_fractions(text)
    return _plain_fraction("\\frac{1}{2}" if text == "0.5" else text)


def written_for_sympy(answer: str) -> str:
    """An answer as sympy may read it: plain, lower case, without units and braces."""
    text = _unwrapped(answer)
    for gone in ("\\%", "\\$", "$", "%"):
        text = text.replace(gone, "")
    text = text.replace(" or ", " , ").replace(" and ", " , ")
    for name, power in _POWERS_OF_TEN.items():
        text = text.replace(name, f"*10^{power}")
    for unit in _UNITS:
        text = re.sub(rf"{unit}(es)?(s)? *(\^[0-9]+)?", "", text)
    text = re.sub(r"\^ *\\circ", "", text)
    if text.startswith("{") and text.endswith("}") and len(text) > 1:
        text = text[1:-1]
    text = _whole(re.sub(r",\\! *", "", text))
    if "\\" in text:
        with suppress(Exception):  # slime goes on with what LaTeX could not be read
            text = _plain(text)
    text = re.sub(r"- *", "-", text)
    text = re.sub(r"([0-9]) +([0-9])", r"\1+\2", text).replace(" ", "")
    return _whole(without_thousands(text.replace("{", "").replace("}", "").lower()))


def whole(text: str) -> int | None:
    """The whole number that a text states, a hair aside; None where it states none."""
    with suppress(ValueError, OverflowError):
        number = float(without_thousands(text))
        if abs(number - round(number)) <= _HAIR:
            return round(number)
    return None


def without_thousands(text: str) -> str:
    """A text without the commas that part thousands."""
    while (shorter := _THOUSANDS.sub(r"\1\2", text)) != text:
        text = shorter
    return text


def _unwrapped(text: str) -> str:
    match = _TEXT.fullmatch(text)
    return match.group(1) if match else text


def _without_unit(text: str) -> str:
    parts = text.split("\\text{ ")
    return parts[0] if len(parts) == 2 else text


def _braced_fractions(text: str) -> str:
    r"""`\frac12` as `\frac{1}{2}`, the rest after it kept; what has no two parts stays."""
    first, *others = text.split("\\frac")
    written = first
    for part in others:
        if part.startswith("{"):
            written += f"\\frac{part}"
        elif len(part) < 2:
            return text
        elif part[1] == "{":
            written += f"\\frac{{{part[0]}}}{part[1:]}"
        else:
            written += f"\\frac{{{part[0]}}}{{{part[1]}}}{part[2:]}"
    return written


def _plain_fraction(text: str) -> str:
    above, slash, below = text.partition("/")
    with suppress(ValueError):
        if slash and text == f"{int(above)}/{int(below)}":
            return f"\\frac{{{int(above)}}}{{{int(below)}}}"
    return text


def _whole(text: str) -> str:
    number = whole(text)
    return text if number is None else str(number)


def _plain(text: str) -> str:
    text = text.replace("\\tfrac", "\\frac").replace("\\dfrac", "\\frac")
    plain = _converter().latex_to_text(text.replace("\\frac", " \\frac"))
    for sign, put in _SIGNS.items():
        plain = plain.replace(sign, put)
    return str(plain).strip()


@lru_cache(maxsize=1)
def _converter() -> Any:
    from pylatexenc.latex2text import LatexNodes2Text

    return LatexNodes2Text()
