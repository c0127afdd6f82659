"""`MatchingEnvironment`: the trained model's seat in a matching game."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from retrain.environment import Environment
from retrain.errors import EnvironmentFailure
from retrain.signatures import check_config
from retrain.types import Action, Message, Observation, StepResult, Task

from .board import Board, read_board
from .drawing import BoardRules, draw_board
from .game import MatchingGame
from .messages import IllegalMove, Said
from .partner import make_partner
from .prompts import Style, first_prompt
from .questions import count_questions

_MODEL, _PARTNER = 0, 1
_CUT = "your turn was cut off; say less"


class MatchingEnvironment(Environment):
    """Plays one game against a partner, whose words are observations.

    The reward comes with the end: the value of the accepted assignment over the best one's, 0
    without agreement. A task's `game_state` is the board; a task without one gets a board from the
    seed, one for the whole group.

    Args:
        partner: "scripted", "endpoint" or an import path `package.module:Class`.
        partner_config: The partner's keyword arguments.
        max_turns: Turns of the model, after which the game is cut short.
        max_errors: Turns against the rules, after which it ends.
        partner_errors: How often a partner may take one turn again.
        prompt: `rules` or `scores`, for boards from the seed.
        board: Keyword arguments of `BoardRules`, for boards from the seed.

    Raises:
        ConfigError: An argument cannot be; the message names it.
    """

    def __init__(
        self,
        *,
        partner: str = "scripted",
        partner_config: Mapping[str, Any] | None = None,
        max_turns: int = 20,
        max_errors: int = 3,
        partner_errors: int = 2,
        prompt: Style = "rules",
        board: Mapping[str, Any] | None = None,
    ) -> None:
        key = "environment.env_specific_config.board"
        self._rules = BoardRules(**check_config(BoardRules, board or {}, key))
        self._partner = make_partner(partner, partner_config or {})
        self._max_turns = max_turns
        self._max_errors = max_errors
        self._partner_errors = partner_errors
        self._style: Style = prompt

    @property
    def replayable(self) -> bool:
        """Whether the partner answers the same again: only one that asks nobody does."""
        return self._partner.replayable

    async def reset(self, task: Task, seed: int) -> Observation:
        """Lay out the board."""
        state = task.metadata.get("game_state")
        if state is None:
            board = draw_board(Random(seed), self._rules)
            prompt: tuple[Message, ...] = (self._prompt(board),)
        else:
            board = read_board(f"task {task.id}: game_state", state)
            prompt = task.messages
        self.game = MatchingGame(board)
        self._turns = self._errors = 0
        await self._partner.begin(board.view(_PARTNER), seed)
        return Observation(prompt)

    async def step(self, action: Action) -> StepResult:
        """Take one turn of the model, and the partner's answer to it."""
        self._turns += 1
        try:
            if action.truncated:
                raise IllegalMove(_CUT)
            said = self.game.say(_MODEL, action.text)
        except IllegalMove as fault:
            return self._refuse(fault)
        answer = None if self.game.over else await self._hear(said)
        over = self.game.over
        reply = () if over or answer is None else (Message("user", str(answer)),)
        return StepResult(
            Observation(reply),
            self.game.reward if over else 0.0,
            over,
            not over and self._turns == self._max_turns,
            self._info(said),
        )

    def _prompt(self, board: Board) -> Message:
        return Message("user", first_prompt(board.view(_MODEL), self._style))

    async def _hear(self, said: Said) -> Said:
        """The partner's answer, by the rules."""
        text = await self._partner.answer(said)
        for _ in range(self._partner_errors):
            try:
                return self.game.say(_PARTNER, text)
            except IllegalMove as fault:
                text = await self._partner.mend(str(fault))
        try:
            return self.game.say(_PARTNER, text)
        except IllegalMove as fault:
            raise EnvironmentFailure(f"the partner keeps breaking the rules: {fault}") from fault

    def _refuse(self, fault: IllegalMove) -> StepResult:
        self._errors += 1
        over = self._errors > self._max_errors
        reply = (Message("user", f"[error] {fault}"),)
        cut = not over and self._turns == self._max_turns
        return StepResult(Observation(reply), 0.0, over, cut, self._info(None))

    def _info(self, said: Said | None) -> dict[str, Any]:
        """What an analysis wants to know of a turn."""
        board, accepted = self.game.board, self.game.accepted
        asked = count_questions(said.text, board.names) if said else None
        return {
            "tag": said.tag if said else "error",
            "questions": asked.asked if asked else 0,
            "pair_questions": asked.pairs if asked else 0,
            "errors": self._errors,
            "agreed": accepted is not None,
            "value": board.value(accepted) if accepted else 0,
            "best": board.best,
            "success": accepted is not None and board.value(accepted) == board.best,
            **self._partner.counted(),
        }
