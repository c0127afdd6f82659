"""`type: textarena`: games of TextArena; one seat is the model's, the others are opponents'."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from retrain.environment.adapters.loading import require
from retrain.environment.adapters.own_random import OwnRandom
from retrain.environment.adapters.text import first_prompt, numbered_tasks, reply, small_seed
from retrain.environment.adapters.textarena_players import Listener, Opponent, load_opponent
from retrain.errors import ConfigError, EnvironmentFailure, nearest
from retrain.types import Action, Observation, StepResult, Task

_KEY = "environment.env_specific_config"


class TextArenaEnvironment:
    """Plays one game, and gives the reward of the model's seat at its end.

    The model is told what is new since its last move, each message with its sender as TextArena's
    `LLMObservationWrapper` writes it; its own moves are not repeated. With `observations: whole`
    each turn is instead a prompt of its own, what the game's own wrappers show, and so a segment
    of its own: a backend that takes one stream an episode refuses it.

    Args:
        id: The game (`TicTacToe-v0`). Without `observations: whole` its `-raw` form is played.
        seat: The model's seat; None draws it from the seed, one for the whole group.
        players: How many play.
        opponent: Import path of who sits in the other seats: a function `(observation) -> move`, or
            a class of such objects, one for each seat and episode (`textarena.agents:OpenAIAgent`
            asks an engine). It reads all that its seat was told.
        opponent_config: Keyword arguments of that class, or further ones of the function.
        observations: As above.
        arguments: Keyword arguments for `textarena.make`.
        system_prompt: A system message before the game's own prompt.

    Raises:
        ConfigError: Other seats without an opponent, or a seat that is not there.
        MissingDependency: TextArena is not installed.
    """

    def __init__(
        self,
        *,
        id: str,
        seat: int | None = 0,
        players: int = 1,
        opponent: str | None = None,
        opponent_config: Mapping[str, Any] | None = None,
        observations: Literal["new", "whole"] = "new",
        arguments: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
    ) -> None:
        require("textarena", "environment textarena", "retrain[textarena]")
        if seat is not None and not 0 <= seat < players:
            raise ConfigError(f"{_KEY}.seat: {seat} of {players} players; seats begin with 0")
        if players > 1 and opponent is None:
            raise ConfigError(f"{_KEY}.opponent: missing; {players - 1} of the seats need one")
        self._id = id
        self._chosen_seat = seat
        self._players = players
        self._opponent = opponent
        self._opponent_config = dict(opponent_config or {})
        self._whole = observations == "whole"
        self._arguments = dict(arguments or {})
        self._system_prompt = system_prompt
        self._random = OwnRandom(0)
        self._over = False
        self.seat = 0
        self.env: Any = None

    @property
    def rewrites_history(self) -> bool:
        """Whether each turn is a prompt of its own."""
        return self._whole

    @classmethod
    def tasks(cls, *, count: int = 1000) -> list[Task]:
        """Games for `prompt_source: {type: environment}`: the game writes the prompts.

        Args:
            count: How many; each has a seed of its own.
        """
        return numbered_tasks(count)

    def reset(self, task: Task, seed: int) -> Observation:
        """Begin a game, and play it up to the model's first move."""
        small = small_seed(seed)
        seat = self._chosen_seat
        self.seat = small % self._players if seat is None else seat
        self._random = OwnRandom(small)
        library = import_module("textarena")
        self.env = self._made(library)
        self._over = False
        self._listeners = [Listener(self.env, seat) for seat in range(self._players)]
        self._opponents: dict[int, Opponent] = {}
        with self._random.in_place():
            self.env.reset(num_players=self._players, seed=small)
        said = self._until_our_turn()
        if said is None:
            raise EnvironmentFailure(f"{self._id}: the game was over before the model's first move")
        self._task = task
        return first_prompt(task, said, self._system_prompt)

    def step(self, action: Action) -> StepResult:
        """Make the model's move, and those of the others up to its next one."""
        self._move(action.text)
        said = self._until_our_turn()
        if said is None:
            return StepResult(Observation(), self._reward(), True, False, self._info())
        if self._whole:
            whole = first_prompt(self._task, said, self._system_prompt).messages
            return StepResult(Observation(whole, rewrite=True))
        return StepResult(reply(said))

    def _made(self, library: Any) -> Any:
        known = import_module("textarena.envs.registration").ENV_REGISTRY
        if self._id not in known:
            raise ConfigError(f"{_KEY}.id: no game {self._id!r}; {nearest(self._id, known)}")
        raw = f"{self._id}-raw"
        with self._random.in_place():
            name = raw if not self._whole and raw in known else self._id
            return library.make(name, **self._arguments)

    def _until_our_turn(self) -> str | None:
        """What the model is told before its next move; None once the game is over."""
        while not self._over:
            with self._random.in_place():
                player, came = self.env.get_observation()
            listener = self._listeners[player]
            listener.hear(came)
            if player == self.seat:
                return str(listener.told())
            self._move(self._opponent_of(player)(listener.all()))
        return None

    def _move(self, text: str) -> None:
        with self._random.in_place():
            self._over, _ = self.env.step(text)

    def _opponent_of(self, player: int) -> Opponent:
        if player not in self._opponents:
            path = str(self._opponent)
            self._opponents[player] = load_opponent(path, self._opponent_config)
        return self._opponents[player]

    def _reward(self) -> float:
        rewards = self.env.state.rewards or {}
        return float(rewards.get(self.seat, 0.0))

    def _info(self) -> dict[str, Any]:
        rewards = self.env.state.rewards or {}
        mine = dict(self.env.state.game_info.get(self.seat, {}))
        best = max(rewards.values(), default=0.0)
        won = self._reward() > 0 and self._reward() == best
        return {**mine, "seat": self.seat, "success": won}
