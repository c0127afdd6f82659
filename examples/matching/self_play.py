"""`MatchingPair`: both seats of a matching game, for self-play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from retrain.environment.several_agents import MultiAgentEnvironment, Outcome
from retrain.signatures import check_config
from retrain.types import Action, Message, Observation, Task

from .board import read_board
from .drawing import BoardRules, draw_board
from .game import MatchingGame
from .messages import IllegalMove
from .prompts import Style, first_prompt
from .questions import count_questions

_SEATS = ("first", "second")


class MatchingPair(MultiAgentEnvironment):
    """Two agents, each with its own scores; both earn what their assignment is worth.

    `environment.agents` says who plays a seat that is not trained; left out, both are.

    Args:
        max_turns: Turns of each, after which the game is cut short.
        max_errors: Turns of each against the rules, after which it ends.
        prompt: `rules` or `scores`.
        board: Keyword arguments of `BoardRules`, for tasks without a `game_state`.

    Raises:
        ConfigError: An argument cannot be; the message names it.
    """

    def __init__(
        self,
        *,
        max_turns: int = 20,
        max_errors: int = 3,
        prompt: Style = "rules",
        board: Mapping[str, Any] | None = None,
    ) -> None:
        key = "environment.env_specific_config.board"
        self._rules = BoardRules(**check_config(BoardRules, board or {}, key))
        self._max_turns = max_turns
        self._max_errors = max_errors
        self._style: Style = prompt

    @property
    def agents(self) -> Sequence[str]:
        """The one that speaks first, and the other."""
        return _SEATS

    async def reset(self, task: Task, seed: int) -> None:
        """Lay out the board."""
        state = task.metadata.get("game_state")
        if state is None:
            board = draw_board(Random(seed), self._rules)
        else:
            board = read_board(f"task {task.id}: game_state", state)
        self.game = MatchingGame(board)
        self._next = 0
        self._turns, self._errors = [0, 0], [0, 0]
        self._told = [[first_prompt(board.view(seat), self._style)] for seat in (0, 1)]

    async def acting(self) -> Sequence[str]:
        """Whose turn it is."""
        spent = self._turns[self._next] >= self._max_turns
        lost = max(self._errors) > self._max_errors
        return () if self.game.over or spent or lost else (_SEATS[self._next],)

    async def observe(self, agent: str) -> Observation:
        """The scores at first, and whatever was said since the last turn."""
        told = self._told[_SEATS.index(agent)]
        text = "\n\n".join(told)
        told.clear()
        return Observation((Message("user", text),))

    async def step(self, agent: str, action: Action) -> Outcome:
        """Take a turn; one against the rules is told to its player, who has another."""
        seat = _SEATS.index(agent)
        self._turns[seat] += 1
        try:
            if action.truncated:
                raise IllegalMove("your turn was cut off; say less")
            said = self.game.say(seat, action.text)
        except IllegalMove as fault:
            self._errors[seat] += 1
            self._told[seat].append(f"[error] {fault}")
            return Outcome(info={"tag": "error", "questions": 0})
        self._next = 1 - seat
        self._told[1 - seat].append(str(said))
        asked = count_questions(said.text, self.game.board.names).asked
        return Outcome(info={"tag": said.tag, "questions": asked})

    async def outcomes(self) -> Mapping[str, Outcome]:
        """Both earn the accepted assignment's value over the best one's."""
        board, accepted = self.game.board, self.game.accepted
        value = board.value(accepted) if accepted else 0
        info = {"value": value, "best": board.best, "success": value == board.best}
        return {seat: Outcome(self.game.reward, info) for seat in _SEATS}
