"""`dapo`: the answer of the last line that begins with "Answer:", as DAPO trains for."""

from __future__ import annotations

import re
from typing import Any

from retrain.reward.hub.boxed import last_boxed
from retrain.reward.hub.cases import Case, Compat, label_of, response_of
from retrain.reward.hub.math_answer import math
from retrain.reward.hub.pool import SECONDS
from retrain.reward.hub.slime_dapo import slime_dapo

_LINE = re.compile(r"answer\s*:(?P<answer>[^\n]*)", re.IGNORECASE)
_NO_ANSWER = "[INVALID]"
_AROUND = " \t\r*_`\"'"


def dapo(case: Case, *, compat: Compat | None = None, seconds: float = SECONDS) -> dict[str, Any]:
    r"""{score, acc, pred}: 1.0 where the last "Answer: …" is mathematically the label, else -1.0.

    Emphasis, quotes, `$…$`, a box and a full stop around the answer are no part of it.
    Source: Yu et al. 2025, "DAPO" (arXiv:2503.14476), section 2.4, equation 7.

    Args:
        case: The response and its label.
        compat: "slime" for what slime's `dapo` gives: only the last 300 characters count, and a
            label is cut to a whole number.
        seconds: How long one comparison may take.

    Raises:
        RewardFailure: As for `math`.
    """
    if compat == "slime":
        return slime_dapo(case.response, case.label)
    label = label_of(case, "dapo")
    found = [match.group("answer") for match in _LINE.finditer(response_of(case))]
    answer = _bare(found[-1]) if found else ""
    if not answer:
        return {"score": -1.0, "acc": False, "pred": _NO_ANSWER}
    right = math(Case(f"\\boxed{{{answer}}}", label), seconds=seconds) == 1.0
    return {"score": 1.0 if right else -1.0, "acc": right, "pred": answer}


def _bare(line: str) -> str:
    answer = line.strip(_AROUND).rstrip(".").strip(_AROUND)
    answer = (last_boxed(answer) or answer) if "boxed" in answer else answer
    if len(answer) > 2 and answer[0] == answer[-1] == "$":
        answer = answer[1:-1]
    return answer.strip()
