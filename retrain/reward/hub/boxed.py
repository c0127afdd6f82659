r"""Finds the last `\boxed{…}` of a response."""

from __future__ import annotations

import re
from dataclasses import replace

from retrain.reward.hub.cases import Case, Compat, response_of
from retrain.reward.hub.slime_boxed import slime_last_boxed

_BOX = re.compile(r"\\f?boxed\s*(?=\{)|\\fbox\s*(?=\{)|\\boxed\s+(?P<bare>[^\s${}\\]+)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def last_boxed(text: str) -> str | None:
    r"""What the last box of a text holds; white space around it aside.

    `\boxed{7}`, `\fbox{7}` and `\boxed 7` are boxes, and an escaped brace (`\{`) is no brace. A box
    that is not closed is an answer that was cut off: None.

    Args:
        text: The text; read once, whatever its length.
    """
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    match = _BOX.match(text, start) if start >= 0 else None
    if match is None:
        return None
    if (bare := match.group("bare")) is not None:
        return bare.rstrip(".,;")
    depth = 0
    for brace in _BRACE.finditer(text, match.end()):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return text[match.end() + 1 : brace.start()].strip()
    return None


def unboxed(case: Case, compat: Compat | None) -> Case:
    """The case with what its last box holds as the response; "" where there is none."""
    if compat == "slime":
        return replace(case, response=slime_last_boxed(case.response) or "")
    return replace(case, response=last_boxed(response_of(case)) or "")
