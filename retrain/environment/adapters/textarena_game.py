"""One game of TextArena: whose move it is, what each seat was told, and what the game paid."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from retrain.environment.adapters.own_random import OwnRandom
from retrain.environment.adapters.text import small_seed
from retrain.environment.adapters.textarena_players import Listener
from retrain.errors import ConfigError, nearest

_KEY = "environment.env_specific_config"


class Game:
    """A game in play, with a state of the process-wide generators of its own.

    Args:
        id: The game; without `whole` its `-raw` form is played.
        players: How many play.
        whole: Whether seats read what the game's own wrappers show.
        arguments: Keyword arguments for `textarena.make`.
        seed: Seeds it, in [0, 2**63).

    Raises:
        ConfigError: There is no such game.
    """

    def __init__(
        self, id: str, players: int, *, whole: bool, arguments: Mapping[str, Any], seed: int
    ) -> None:
        self.seed = small_seed(seed)
        self._random = OwnRandom(self.seed)
        self.env = self._made(id, whole, arguments)
        self._over = False
        self._listeners = [Listener(self.env, seat) for seat in range(players)]
        with self._random.in_place():
            self.env.reset(num_players=players, seed=self.seed)

    def next_seat(self) -> int | None:
        """Whose move it is, once that seat has heard what is new; None when the game is over."""
        if self._over:
            return None
        with self._random.in_place():
            seat, came = self.env.get_observation()
        self._listeners[seat].hear(came)
        return int(seat)

    def told(self, seat: int) -> str:
        """What a seat was told since the last call, its own moves left out."""
        return self._listeners[seat].told()

    def heard(self, seat: int) -> str:
        """All that a seat was told."""
        return self._listeners[seat].all()

    def move(self, text: str) -> None:
        """Make the move of the seat whose turn it is."""
        with self._random.in_place():
            self._over, _ = self.env.step(text)

    def reward(self, seat: int) -> float:
        """What the game paid a seat; 0 before its end."""
        return float((self.env.state.rewards or {}).get(seat, 0.0))

    def info(self, seat: int) -> dict[str, Any]:
        """What the game says of a seat at its end, and whether it won."""
        best = max((self.env.state.rewards or {}).values(), default=0.0)
        won = self.reward(seat) > 0 and self.reward(seat) == best
        return {**self.env.state.game_info.get(seat, {}), "seat": seat, "success": won}

    def _made(self, id: str, whole: bool, arguments: Mapping[str, Any]) -> Any:
        library = import_module("textarena")  # whole: its games are registered as it is imported
        known = import_module("textarena.envs.registration").ENV_REGISTRY
        if id not in known:
            raise ConfigError(f"{_KEY}.id: no game {id!r}; {nearest(id, known)}")
        raw = f"{id}-raw"
        with self._random.in_place():
            name = raw if not whole and raw in known else id
            return library.make(name, **arguments)
