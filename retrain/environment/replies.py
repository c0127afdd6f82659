"""Turns what an environment returned into the types of `retrain.types`, or says what is wrong.

The only place where looser forms are read: text or messages for an observation, Gymnasium's tuples
for a reset and a step, chat dictionaries for a message.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from pydantic_core import to_jsonable_python

from retrain.environment.messages import as_message
from retrain.errors import EnvironmentFailure
from retrain.types import Message, Observation, StepResult

OBSERVATION_FORMS = "an Observation, text, a Message or a sequence of messages"
RESET_FORMS = f"{OBSERVATION_FORMS}, or (observation, info)"
STEP_FORMS = (
    "a StepResult or a tuple (observation, reward, terminated, truncated, info) in that order"
)


def as_first_observation(value: Any) -> Observation:
    """Read what `reset` returned.

    Args:
        value: An `Observation`, text (one user message), a message, a sequence of messages or of
            chat dictionaries, or a pair of any of these and an info mapping, which is dropped.

    Raises:
        EnvironmentFailure: It is anything else, or holds no message.
    """
    if isinstance(value, tuple) and len(value) == 2 and _is_info(value[1]):
        value = value[0]
    observation = _as_observation(value, "reset", RESET_FORMS)
    if not observation.messages:
        raise EnvironmentFailure("reset returned no message; the first prompt cannot be empty")
    return observation


def as_told(value: Any, operation: str) -> Observation:
    """Read what an agent of several is told before it acts.

    Args:
        value: In any form that `reset` may return, without an info mapping.
        operation: The call that returned it.

    Raises:
        EnvironmentFailure: It is anything else, or holds no message.
    """
    observation = _as_observation(value, operation, OBSERVATION_FORMS)
    if not observation.messages:
        raise EnvironmentFailure(f"{operation} returned no message; an agent that acts reads one")
    return observation


def as_step_result(value: Any) -> StepResult:
    """Read what `step` returned.

    Args:
        value: A `StepResult`, or a tuple in Gymnasium's order. Its observation may have any form
            that `reset` may return, and be None once the episode is over.

    Returns:
        The same with a float reward, bool flags and an info of JSON values.

    Raises:
        EnvironmentFailure: It is anything else, the reward is not finite or a flag is no bool.
    """
    if not isinstance(value, tuple) or len(value) != 5:
        raise EnvironmentFailure(f"step returned {_describe(value)}; expected {STEP_FORMS}")
    observation, reward, terminated, truncated, info = value
    ended = _as_flag(terminated, "terminated"), _as_flag(truncated, "truncated")
    messages = Observation() if observation is None and any(ended) else observation
    return StepResult(
        _as_observation(messages, "step", f"{OBSERVATION_FORMS} as its observation"),
        as_reward(reward, "step"),
        *ended,
        as_info(info, "step"),
    )


def as_reward(reward: Any, operation: str) -> float:
    """Read a reward.

    Args:
        reward: A finite number.
        operation: The method that returned it.

    Raises:
        EnvironmentFailure: It is anything else.
    """
    if not isinstance(reward, Real):
        described = _describe(reward)
        raise EnvironmentFailure(f"{operation} returned {described} as reward; expected a number")
    if not math.isfinite(reward):
        raise EnvironmentFailure(
            f"{operation} returned the reward {reward}; expected a finite number"
        )
    return float(reward)


def as_info(info: Any, operation: str) -> dict[str, Any]:
    """Read an info mapping; None is an empty one.

    Args:
        info: The mapping; what JSON cannot hold in it becomes text.
        operation: The method that returned it.

    Raises:
        EnvironmentFailure: It is no mapping.
    """
    if info is None:
        return {}
    if not isinstance(info, Mapping):
        described = _describe(info)
        raise EnvironmentFailure(f"{operation} returned {described} as info; expected a mapping")
    values: dict[str, Any] = to_jsonable_python({**info}, fallback=_plain) if info else {}
    return values


def _as_observation(value: Any, operation: str, expected: str) -> Observation:
    rewrite = isinstance(value, Observation) and value.rewrite
    if isinstance(value, Observation):
        value = value.messages
    if isinstance(value, str):
        return Observation((Message("user", str(value)),), rewrite)
    if isinstance(value, Message | Mapping):
        value = (value,)
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray):
        raise EnvironmentFailure(f"{operation} returned {_describe(value)}; expected {expected}")
    return Observation(tuple(_as_own_message(item, operation) for item in value), rewrite)


def _as_own_message(item: Any, operation: str) -> Message:
    try:
        return as_message(item)
    except ValueError as error:
        raise EnvironmentFailure(f"{operation} returned a wrong message: {error}") from error


def _as_flag(flag: Any, name: str) -> bool:
    if type(flag).__module__ == "numpy" and hasattr(flag, "item"):
        flag = flag.item()
    if not isinstance(flag, bool):
        raise EnvironmentFailure(
            f"step returned {_describe(flag)} as {name}; expected True or False, and {STEP_FORMS}"
        )
    return flag


def _is_info(value: Any) -> bool:
    return isinstance(value, Mapping) and "role" not in value


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "size", 0) == 1 else str(value)


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value).__name__
    text = repr(value)
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return f"{kind} of {len(value)} ({shown})" if isinstance(value, tuple) else f"{kind} {shown}"
