r"""The boxes that slime's rules find."""

from __future__ import annotations

import re
from typing import Any

_BOX = "\\boxed"
_BRACE = re.compile(r"[{}]")


def slime_last_boxed(text: Any) -> str | None:
    r"""What the last `\boxed{…}` of a text holds: an escaped brace counts as a brace.

    None where there is no box, or the last one has no brace or is not closed. What is not text
    raises as it does there.
    """
    if _BOX not in text:
        return None
    start = text.rfind(_BOX) + len(_BOX)
    if not text.startswith("{", start):
        return None
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return str(text[start + 1 : brace.start()])
    return None
