r"""What slime's `dapo` gives, found from its scores.

The answer is cleaned by replacing and removing pieces of text in an order that matters: units go
wherever the letters stand, so that `centimeters` leaves `centi`.
"""

from __future__ import annotations

import re
from typing import Any

TAIL = 300
"""How many characters of a response count."""

_LINE = re.compile(r"answer\s*:\s*([^\n]+)", re.IGNORECASE)
_PUT = (
    ("an ", ""),
    ("a ", ""),
    (".$", "$"),
    ("\\$", ""),
    ("\\ ", ""),
    (" ", ""),
    ("mbox", "text"),
    (",\\text{and}", ","),
    ("\\text{and}", ","),
    ("\\text{m}", "\\text{}"),
)
_GONE = (
    *("square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units"),
    *("\\ldots", "points", "feet", "minutes", "digits", "cents", "degrees", "cm", "pounds"),
    *("meters", "meals", "edges", "students", "multiples", "\\text{s}", "\\text{.}"),
    *(
        "\\text{}^2",
        "\\text{}^3",
        "\\text{}",
        "\\mathrm{th}",
        "^\\circ",
        "^{\\circ}",
        "\\;",
        ",\\!",
        "{,}",
        '"',
        "\\dots",
    ),
)
_INSIDE = tuple(
    re.compile(pattern)
    for pattern in (
        r"\\text\{(.*?)\}",
        r"\\textbf\{(.*?)\}",
        r"\\overline\{(.*?)\}",
        r"\\boxed\{(.*)\}",
    )
)
_MATHS = re.compile(r"^.*?\$(.*?)\$.*$")
_FRACTION = re.compile(r"frac([^{])(.)")
_ROOT = re.compile(r"sqrt([^{])")


def slime_dapo(response: Any, label: Any) -> dict[str, Any]:
    """The score, whether it is right, and the answer that was read.

    What cannot be read raises as it does there: a label that is no number is a ValueError, an
    infinite one an OverflowError, and a response that is no text a TypeError.
    """
    tail = response[-TAIL:]
    wanted = str(int(float(_cleaned(str(label)))))
    found = _LINE.findall(tail)
    answer = _cleaned(found[-1]) if found else "[INVALID]"
    right = answer == wanted
    return {"score": 1.0 if right else -1.0, "acc": right, "pred": answer}


def _cleaned(answer: str) -> str:
    text = answer.split("=")[-1]
    for piece, put in _PUT:
        text = text.replace(piece, put)
    for piece in _GONE:
        text = text.replace(piece, "")
    text = _MATHS.sub(r"\1", text)
    for pattern in _INSIDE:
        text = pattern.sub(r"\1", text)
    text = _FRACTION.sub(r"frac{\1}{\2}", text)
    text = _ROOT.sub(r"sqrt{\1}", text).replace("$", "")
    plain = text.replace(",", "")
    return (plain if plain.isdigit() else text).strip()
