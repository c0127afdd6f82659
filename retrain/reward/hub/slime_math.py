r"""Grades a boxed answer as slime's `math` and `deepscaler` do; runs in a worker process.

Written from the scores that they give: an answer is right where one of two ways to write answers
alike makes both sides the same text, or where sympy finds their difference to be 0. The quirks are
kept: 4/2 is not 2, 50% is 50, and y=5 is 5.
"""

from __future__ import annotations

import re

from retrain.reward.hub.slime_math_text import by_letter, whole, written_for_sympy

_FRACTION = re.compile(r"-?[0-9]+.?/0*[1-9][0-9]*.?")
_UNREADABLE = re.compile(r"\^\{|\^\(|\^[0-9]+\^|\^[0-9][0-9]+")
_MOST_UNKNOWNS = 2


def same_answer(answer: str, label: str) -> bool:
    """Whether slime counts an answer as the label.

    Args:
        answer: What the box held.
        label: The label, without its box.
    """
    if by_letter(answer) == by_letter(label):
        return True
    given, wanted = written_for_sympy(answer), written_for_sympy(label)
    if given == wanted:
        return True
    if not given:
        return False
    given_parts, wanted_parts = _parts(given), _parts(wanted)
    if len(wanted_parts) > 1 and (given[0] != wanted[0] or given[-1] != wanted[-1]):
        return False
    if len(given_parts) != len(wanted_parts):
        return False
    return all(map(_same_part, given_parts, wanted_parts))


def _parts(text: str) -> list[str]:
    """The members of a tuple or interval; else the whole text."""
    bracketed = len(text) > 2 and text[0] in "([" and text[-1] in ")]"
    if not bracketed or any(bracket in text[1:-1] for bracket in "()[]"):
        return [text]
    return [part.strip() for part in text[1:-1].split(",")]


def _same_part(given: str, wanted: str) -> bool:
    if _FRACTION.fullmatch(given) and _FRACTION.fullmatch(wanted):
        return given == wanted
    if _is_whole(given) != _is_whole(wanted):
        return False
    return _no_difference(given, wanted)


def _is_whole(text: str) -> bool:
    return whole(text) is not None


def _no_difference(given: str, wanted: str) -> bool:
    difference = f"({wanted})-({given})"
    if _unknowns(difference) > _MOST_UNKNOWNS or _UNREADABLE.search(difference):
        return False
    import sympy
    from sympy.parsing import sympy_parser

    try:
        parsed = sympy_parser.parse_expr(
            difference.replace("^", "**"),
            transformations=(
                *sympy_parser.standard_transformations,
                sympy_parser.implicit_multiplication_application,
            ),
        )
        return bool(sympy.simplify(parsed) == 0)
    except Exception:  # noqa: BLE001 - what sympy cannot read is another answer
        return False


def _unknowns(text: str) -> int:
    plain = text.replace("sqrt", "").replace("frac", "")
    return len({letter for letter in plain if letter.isalpha()})
