"""Whether two answers are the same mathematics; runs in a worker process with a time limit.

math-verify's own time limits are alarms, which work in a main thread only: they are off, and the
process's limit takes their place.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that the alarms are off

_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textit)\{([^{}]*)\}")
_SPACE = re.compile(r"\s+")


def equal(answer: str, label: str) -> bool:
    r"""Whether an answer states what the label states.

    They are the same text (case, white space, `\text{}` and outer brackets aside), or math-verify
    finds them equal.

    Args:
        answer: LaTeX, as it stands in a box.
        label: LaTeX or a plain expression.
    """
    written = _words(answer)
    if written and written == _words(label):
        return True
    from math_verify import verify

    gold, given = _parsed(label), _parsed(answer)
    return bool(gold and given and verify(gold, given, timeout_seconds=None))


def equal_anywhere(response: str, label: str) -> bool:
    """Whether the last thing that math-verify reads in a response is what the label states."""
    from math_verify import parse, verify

    gold, given = _parsed(label), parse(response, parsing_timeout=None)
    return bool(gold and given and verify(gold, given, timeout_seconds=None))


def warm_up() -> None:
    """Import math-verify and let its parsers fill their caches, so that each worker has them."""
    for answer in (r"\frac{1}{2}", "x=5", "(1,2)", r"\sqrt{2}", "2^{10}", "[1,2)", r"\{1,2\}"):
        equal(answer, "0.5")


@lru_cache(maxsize=4096)
def _parsed(text: str) -> list[Any]:
    from math_verify import parse

    return list(parse(f"\\boxed{{{text}}}", parsing_timeout=None))


def _words(text: str) -> str:
    plain = _SPACE.sub(" ", _WRAPPED.sub(r"\1", text)).strip().casefold()
    if len(plain) > 2 and plain[0] == "(" and plain[-1] == ")" and plain[1:-1].isalpha():
        return plain[1:-1]
    return plain
