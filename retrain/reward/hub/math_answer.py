"""`math` and `deepscaler`: a boxed answer against the label, as mathematics."""

from __future__ import annotations

from typing import Any, Literal

from retrain.errors import RewardFailure
from retrain.reward.hub.boxed import last_boxed
from retrain.reward.hub.cases import Case, Compat, label_of, response_of
from retrain.reward.hub.catalogue import require
from retrain.reward.hub.pool import SECONDS, math_pool
from retrain.reward.hub.slime_boxed import slime_last_boxed

MOST_CHARACTERS = 4000
"""The longest answer or label that is compared."""

_EQUAL = "retrain.reward.hub.math_worker:equal"
_ANYWHERE = "retrain.reward.hub.math_worker:equal_anywhere"
_SLIME = "retrain.reward.hub.slime_math:same_answer"


def math(
    case: Case,
    *,
    compat: Compat | None = None,
    answer: Literal["boxed", "anywhere"] = "boxed",
    seconds: float = SECONDS,
) -> float:
    r"""1.0 where the last `\boxed{…}` is mathematically the label; else 0.0.

    Args:
        case: The response and its label: LaTeX, a plain expression, a number, or a text that has a
            box itself.
        compat: "slime" for the scores of slime's `math`.
        answer: "anywhere" reads the last expression of a response that has no box.
        seconds: How long one comparison may take.

    Raises:
        RewardFailure: The label is missing or of a wrong kind; the answer or the label is longer
            than 4,000 characters; or comparing them took too long or too much memory.
    """
    if compat == "slime":
        return _slime_math(case, seconds)
    label = label_of(case, "math")
    response = response_of(case)
    wanted, given = last_boxed(label) or label, last_boxed(response)
    if given is not None:
        return _same(_EQUAL, given, wanted, seconds)
    if answer == "boxed" or "boxed{" in response:
        return 0.0
    return _same(_ANYWHERE, response[-MOST_CHARACTERS:], wanted, seconds)


def deepscaler(case: Case, *, compat: Compat | None = None, seconds: float = SECONDS) -> float:
    """`math` on what follows the reasoning; 0.0 where the reasoning is not closed.

    Args:
        case: The response, with its reasoning before `</think>` or `###Response`.
        compat: "slime" for the scores of slime's `deepscaler`.
        seconds: How long one comparison may take.

    Raises:
        RewardFailure: As for `math`.
    """
    if compat == "slime":
        return _slime_deepscaler(case, seconds)
    response = response_of(case)
    for mark in ("</think>", "###Response"):
        _, found, reply = response.rpartition(mark)
        if found:
            return math(Case(reply, case.label), seconds=seconds)
    label_of(case, "deepscaler")
    return 0.0


def _slime_math(case: Case, seconds: float) -> float:
    given = slime_last_boxed(case.response)
    if given is None or not case.label:
        return 0.0
    return _slime_same(given, case.label, seconds)


def _slime_deepscaler(case: Case, seconds: float) -> float:
    response: Any = case.response
    if "</think>" in response:
        reply = response.split("</think>")[-1]
    elif "###Response" in response:
        reply = response.split("###Response")[1]
    else:
        return 0.0
    given = slime_last_boxed(reply)
    if given is None or case.label == "":
        return 0.0
    if not isinstance(case.label, str | int | float):
        raise AssertionError
    return _slime_same(given, case.label, seconds)


def _slime_same(given: str, label: Any, seconds: float) -> float:
    wanted = str(label)
    wanted_box = slime_last_boxed(wanted) if "\\boxed" in wanted else wanted
    if wanted_box is None:
        return 0.0
    require("pylatexenc", "retrain[math]", what="compat: slime")
    return _same(_SLIME, given, wanted_box, seconds)


def _same(how: str, given: str, wanted: str, seconds: float) -> float:
    longest = max(len(given), len(wanted))
    if longest > MOST_CHARACTERS:
        raise RewardFailure(f"an answer of {longest:,} characters; at most {MOST_CHARACTERS:,}")
    return float(math_pool().call(how, given, wanted, seconds=seconds))
