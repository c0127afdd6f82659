"""TextArena's games with every seat an agent: self-play, and seats of other models or scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from retrain.environment.adapters.loading import require
from retrain.environment.adapters.text import first_prompt, reply
from retrain.environment.adapters.textarena_game import Game
from retrain.environment.several_agents import Outcome
from retrain.errors import ConfigError
from retrain.types import Action, Observation, Task

_KEY = "environment.env_specific_config"


class TextArenaMatch:
    """Plays one game between `player_0`, `player_1` and so on; each is told what its seat is.

    Args:
        id: The game (`TicTacToe-v0`).
        seat: What chose this class.
        players: How many play.
        opponent: Means nothing here.
        opponent_config: Means nothing here.
        observations: As in `TextArenaEnvironment`.
        arguments: Keyword arguments for `textarena.make`.
        system_prompt: A system message before the game's own prompt.

    Raises:
        ConfigError: An opponent, or a single player.
        MissingDependency: TextArena is not installed.
    """

    def __init__(
        self,
        *,
        id: str,
        seat: Literal["all"] = "all",
        players: int = 1,
        opponent: str | None = None,
        opponent_config: Mapping[str, Any] | None = None,
        observations: Literal["new", "whole"] = "new",
        arguments: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
    ) -> None:
        require("textarena", "environment textarena", "retrain[textarena]")
        if players < 2:
            raise ConfigError(f"{_KEY}.players: {players}; seat: all needs at least 2")
        if opponent is not None or opponent_config is not None:
            raise ConfigError(
                f"{_KEY}.opponent: seat: all trains every seat; name players of single seats under "
                "environment.agents (player_1: package.module:Class)"
            )
        self._id = id
        self._whole = observations == "whole"
        self._arguments = dict(arguments or {})
        self._system_prompt = system_prompt
        self._begun: set[str] = set()
        self._game: Game | None = None
        self.agents = tuple(f"player_{seat}" for seat in range(players))

    @property
    def rewrites_history(self) -> bool:
        """Whether each turn is a prompt of its own."""
        return self._whole

    @property
    def env(self) -> Any:
        """The library's own object; None before the game."""
        return self._game.env if self._game is not None else None

    def reset(self, task: Task, seed: int) -> None:
        """Begin a game."""
        self._task = task
        self._game = Game(
            self._id, len(self.agents), whole=self._whole, arguments=self._arguments, seed=seed
        )

    def acting(self) -> Sequence[str]:
        """Whose move it is."""
        seat = self._playing.next_seat()
        return () if seat is None else (self.agents[seat],)

    def observe(self, agent: str) -> Observation:
        """What an agent was told since its last move."""
        said, first = self._playing.told(self._seat(agent)), agent not in self._begun
        self._begun.add(agent)
        if not first and not self._whole:
            return reply(said)
        whole = first_prompt(self._task, said, self._system_prompt)
        return whole if first else Observation(whole.messages, rewrite=True)

    def step(self, agent: str, action: Action) -> None:
        """Make an agent's move; what it earns is said at the end."""
        self._playing.move(action.text)

    def outcomes(self) -> Mapping[str, Outcome]:
        """What the game paid each seat."""
        game = self._playing
        paid = [(game.reward(seat), game.info(seat)) for seat in range(len(self.agents))]
        return {agent: Outcome(*one) for agent, one in zip(self.agents, paid, strict=True)}

    @property
    def _playing(self) -> Game:
        assert self._game is not None, "reset comes first"
        return self._game

    def _seat(self, agent: str) -> int:
        return self.agents.index(agent)
