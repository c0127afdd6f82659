"""`length`: rewards that shape how long a response is."""

from __future__ import annotations

import math
from typing import Literal

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case, response_of, reward_in
from retrain.reward.hub.scoring import make_scorer


def length(
    case: Case,
    *,
    most: int,
    shape: Literal["soft_overlong", "cosine"] = "soft_overlong",
    cache: int | None = None,
    unit: Literal["tokens", "characters"] = "tokens",
    correct: str = "math",
    right: tuple[float, float] = (2.0, 1.0),
    wrong: tuple[float, float] = (-10.0, 0.0),
    exceeded: float = -10.0,
) -> float:
    """How good the length of a response is.

    `soft_overlong` is 0 up to `most - cache`, falls in a line to -1 at `most`, and stays there.
    Source: Yu et al. 2025, "DAPO" (arXiv:2503.14476), section 3.4, equation 13.

    `cosine` goes along half a cosine from `right[0]` at length 0 to `right[1]` at `most` where the
    rule `correct` says that the answer is right, and likewise along `wrong`; `exceeded` from `most`
    on. Source: Yeo et al. 2025, "Demystifying Long Chain-of-Thought Reasoning in LLMs"
    (arXiv:2502.03373), section 4.2 and its appendix, whose values are the defaults.

    Args:
        case: The response.
        most: The longest response, in units.
        shape: Which of the two.
        cache: The stretch before `most` in which the penalty grows; None for a fifth of `most`.
        unit: What is counted: sampled tokens of the episode, or characters of the response.
        correct: The rule of the hub that decides (`cosine`); above 0.5 is right.
        right: Rewards of a right answer at length 0 and at `most`.
        wrong: Rewards of a wrong answer at length 0 and at `most`.
        exceeded: The reward of a response of `most` units or more.

    Raises:
        RewardFailure: The numbers do not fit each other, or nobody counted the tokens.
    """
    if most < 1:
        raise RewardFailure(f"length: most is {most}; expected at least 1")
    used = _measured(case, unit)
    if shape == "soft_overlong":
        return _soft_overlong(used, most, most // 5 or 1 if cache is None else cache)
    if used >= most:
        return exceeded
    is_right = reward_in(make_scorer(correct)(case), "score") > 0.5
    return _half_cosine(used / most, *(right if is_right else wrong))


def _measured(case: Case, unit: str) -> int:
    if unit == "characters":
        return len(response_of(case))
    if case.tokens is None:
        raise RewardFailure("length counts tokens, and the case has none; unit: characters")
    return case.tokens


def _soft_overlong(used: int, most: int, cache: int) -> float:
    if not 0 < cache <= most:
        raise RewardFailure(f"length: cache is {cache}; expected 1 to {most} (most)")
    return max(-1.0, min(0.0, (most - cache - used) / cache))


def _half_cosine(part: float, start: float, end: float) -> float:
    return end + 0.5 * (start - end) * (1 + math.cos(math.pi * part))
