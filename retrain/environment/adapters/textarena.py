"""`type: textarena`: games of TextArena; one seat is the model's, the others are opponents'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from retrain.environment.adapters.loading import require
from retrain.environment.adapters.text import first_prompt, numbered_tasks, reply, small_seed
from retrain.environment.adapters.textarena_game import Game
from retrain.environment.adapters.textarena_match import TextArenaMatch
from retrain.environment.adapters.textarena_players import Opponent, load_opponent
from retrain.errors import ConfigError, EnvironmentFailure
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
        seat: The model's seat; None draws it from the seed, one for the whole group, and "all"
            trains every seat (`TextArenaMatch`).
        players: How many play.
        opponent: Import path of who sits in the other seats: a function `(observation) -> move`, or
            a class of such objects, one for each seat and episode (`textarena.agents:OpenAIAgent`
            asks an engine). It reads all that its seat was told, and gets the episode's `seed`
            where it takes one.
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
        seat: int | Literal["all"] | None = 0,
        players: int = 1,
        opponent: str | None = None,
        opponent_config: Mapping[str, Any] | None = None,
        observations: Literal["new", "whole"] = "new",
        arguments: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
    ) -> None:
        require("textarena", "environment textarena", "retrain[textarena]")
        if seat == "all":
            raise ConfigError(f"{_KEY}.seat: all is played by TextArenaMatch")
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
        self._game: Game | None = None
        self.seat = 0

    @property
    def rewrites_history(self) -> bool:
        """Whether each turn is a prompt of its own."""
        return self._whole

    @property
    def env(self) -> Any:
        """The library's own object; None before the game."""
        return self._game.env if self._game is not None else None

    @classmethod
    def of_several(cls, arguments: Mapping[str, Any]) -> type[TextArenaMatch] | None:
        """The class that plays a game of which every seat is trained, where that is asked for."""
        return TextArenaMatch if arguments.get("seat") == "all" else None

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
        self._game = Game(
            self._id, self._players, whole=self._whole, arguments=self._arguments, seed=seed
        )
        self._opponents: dict[int, Opponent] = {}
        said = self._until_our_turn()
        if said is None:
            raise EnvironmentFailure(f"{self._id}: the game was over before the model's first move")
        self._task = task
        return first_prompt(task, said, self._system_prompt)

    def step(self, action: Action) -> StepResult:
        """Make the model's move, and those of the others up to its next one."""
        game = self._playing
        game.move(action.text)
        said = self._until_our_turn()
        if said is None:
            reward, info = game.reward(self.seat), game.info(self.seat)
            return StepResult(Observation(), reward, True, False, info)
        if self._whole:
            whole = first_prompt(self._task, said, self._system_prompt).messages
            return StepResult(Observation(whole, rewrite=True))
        return StepResult(reply(said))

    @property
    def _playing(self) -> Game:
        assert self._game is not None, "reset comes first"
        return self._game

    def _until_our_turn(self) -> str | None:
        """What the model is told before its next move; None once the game is over."""
        game = self._playing
        while (seat := game.next_seat()) is not None:
            if seat == self.seat:
                return game.told(seat)
            game.move(self._opponent_of(seat)(game.heard(seat)))
        return None

    def _opponent_of(self, seat: int) -> Opponent:
        if seat not in self._opponents:
            path, seed = str(self._opponent), self._playing.seed
            self._opponents[seat] = load_opponent(path, self._opponent_config, seed)
        return self._opponents[seat]
