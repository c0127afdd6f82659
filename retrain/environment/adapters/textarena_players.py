"""Who sits at a TextArena game: what each seat was told, and opponents by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from retrain.errors import ConfigError
from retrain.registry import allow_working_directory, load_object

_KEY = "environment.env_specific_config.opponent"
_GAME = -1
_OWN_MOVE = "PLAYER_ACTION"

Opponent: TypeAlias = Callable[[str], str]


class Listener:
    """What one seat has been told.

    Args:
        env: The game.
        seat: The seat.
    """

    def __init__(self, env: Any, seat: int) -> None:
        self._env = env
        self._seat = seat
        self._all: list[str] = []
        self._new: list[str] = []

    def hear(self, came: Any) -> None:
        """Take what `get_observation` gave: new messages, or text that a wrapper wrote."""
        if isinstance(came, str):
            self._all = self._new = [came]
            return
        for sender, text, kind in came:
            line = f"[{self._name(sender)}] {text}"
            self._all.append(line)
            if not (sender == self._seat and kind.name == _OWN_MOVE):
                self._new.append(line)

    def told(self) -> str:
        """What it was told since the last call, its own moves left out."""
        new, self._new = self._new, []
        return "\n".join(new) or "It is your turn."

    def all(self) -> str:
        """All that it was told."""
        return "\n".join(self._all)

    def _name(self, sender: int) -> str:
        roles: Mapping[int, str] = self._env.state.role_mapping
        return "GAME" if sender == _GAME else roles.get(sender, f"Player {sender}")


def load_opponent(path: str, config: Mapping[str, Any], seed: int) -> Opponent:
    """Make an opponent of one seat.

    Args:
        path: Import path of a function `(observation) -> move`, or of a class of such objects.
        config: Keyword arguments of the class, or further ones of the function.
        seed: The episode's, given to what takes a `seed` that `config` does not name.

    Raises:
        ConfigError: There is none, or it cannot be called so.
    """
    allow_working_directory()
    found: Any = load_object(path, f"{_KEY} {path!r}")
    try:
        if "seed" in inspect.signature(found).parameters:
            config = {"seed": seed, **config}
        opponent = found(**config) if inspect.isclass(found) else partial(found, **config)
    except TypeError as error:
        raise ConfigError(f"{_KEY}: {path!r} cannot be made: {error}") from None
    if not callable(opponent):
        raise ConfigError(f"{_KEY}: {path!r} makes {type(opponent).__name__}, which is no function")
    made: Opponent = opponent
    return made
