"""An environment's state after its episode, for reward functions that read attributes of it.

Such functions (`environments` in TRL) run beside the trainer, so the attributes that JSON can hold
are read in the worker once the environment is closed, and sent with its last answer.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from retrain.errors import EnvironmentFailure, RewardFailure
from retrain.rollout.executors.wire import plain

MOST_CHARACTERS = 1_000_000
"""The longest JSON text of one attribute that is sent."""


def capture(world: Any) -> dict[str, Any]:
    """Read the attributes and properties of an object.

    Methods stay behind, as does what JSON cannot hold and what is too long; why is sent instead.

    Returns:
        {"type": the class's name, "values": by name, "kept": why by name}.
    """
    values: dict[str, Any] = {}
    kept: dict[str, str] = {}
    for name in _names(world):
        try:
            values[name] = _value(world, name)
        except EnvironmentFailure as failure:
            kept[name] = str(failure)
    return {"type": type(world).__name__, "values": values, "kept": kept}


def _names(world: Any) -> Iterator[str]:
    for name, _ in inspect.getmembers_static(world):
        if not (name.startswith("__") and name.endswith("__")):
            yield name


def _value(world: Any, name: str) -> Any:
    try:
        value = getattr(world, name)
    except Exception as error:  # a property runs the user's code, which may raise anything
        raise EnvironmentFailure(f"raised {type(error).__name__}: {error}") from error
    if callable(value):
        raise EnvironmentFailure("can be called only where the environment is")
    try:
        sent = plain(value, name, types=False)
    except EnvironmentFailure as error:
        raise EnvironmentFailure(f"cannot be read from here ({error})") from error
    if len(json.dumps(sent)) > MOST_CHARACTERS:
        raise EnvironmentFailure(f"is longer than {MOST_CHARACTERS:,} characters of JSON")
    return sent


def captured_by(world: Any) -> Mapping[str, Any] | None:
    """What a `RemoteWorld` was made from; None for any other object."""
    return world.__dict__["_captured"] if isinstance(world, RemoteWorld) else None


class RemoteWorld:
    """What a reward function sees of an environment that ran elsewhere: a copy of its attributes.

    Args:
        captured: What `capture` gave; None where the episode's state was not asked for.
    """

    def __init__(self, captured: Mapping[str, Any] | None) -> None:
        self._captured = captured or {"type": "environment", "values": {}, "kept": {}}

    def __getattr__(self, name: str) -> Any:
        """An attribute of the environment.

        Raises:
            AttributeError: The environment has none of that name.
            RewardFailure: It has, and it could not cross; the message says why.
        """
        captured = self.__dict__.get("_captured")
        if captured is None:
            raise AttributeError(name)
        if name in captured["values"]:
            return captured["values"][name]
        if name in captured["kept"]:
            raise RewardFailure(
                f"the environment's {name!r} {captured['kept'][name]}; keep what the reward needs "
                "in an attribute of text, numbers, lists or dictionaries, let the environment "
                "reward itself, or set rollout.executor: local"
            )
        raise AttributeError(f"{captured['type']!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<{self._captured['type']} that ran in a worker>"
