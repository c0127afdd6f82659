"""What `remote` sends and what it believes: a score, or a list of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case, shown
from retrain.rows import chat_dict
from retrain.types import Message


def item_of(case: Case) -> dict[str, Any]:
    """A case as it is sent."""
    return {**slime_item_of(case), "metadata": dict(case.metadata or {})}


def slime_item_of(case: Case) -> dict[str, Any]:
    """A case as slime's `remote_rm` sends it."""
    return {"prompt": sendable_prompt(case), "response": case.response, "label": case.label}


def sendable_prompt(case: Case) -> Any:
    """The prompt: text, chat dictionaries, or None."""
    prompt = case.prompt
    if isinstance(prompt, list | tuple):
        return [chat_dict(m) if isinstance(m, Message) else m for m in prompt]
    return prompt


def read_score(reply: Any, key: str) -> float:
    """The number in a reply: itself, or under a key.

    Raises:
        RewardFailure: There is none, or it is not finite.
    """
    value = reply
    if isinstance(reply, dict):
        if key not in reply:
            raise RewardFailure(f"an object without {key!r}: {shown(reply)}")
        value = reply[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RewardFailure(f"{shown(value)}, expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RewardFailure(f"{number}, expected a finite number")
    return number


def read_scores(reply: Any, count: int) -> Sequence[Any]:
    """The scores in the reply to several items: a list, or a list under `scores`.

    Raises:
        RewardFailure: There is no list, or not one score for each.
    """
    scores = reply.get("scores") if isinstance(reply, dict) else reply
    if not isinstance(scores, list):
        raise RewardFailure(f"{shown(reply)}, expected a list of {count} scores")
    if len(scores) != count:
        raise RewardFailure(f"{len(scores)} scores for {count} items")
    return scores
