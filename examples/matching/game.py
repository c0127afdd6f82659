"""`MatchingGame`: the rules of one game, whoever plays it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .assignment import Assignment
from .board import Board
from .messages import IllegalMove, Said, Tag, read_said
from .proposal import parse_proposal

_ANSWERS = (Tag.ACCEPT, Tag.REJECT)


@dataclass(slots=True)
class MatchingGame:
    """Takes turns of two players until one accepts what the other proposed.

    Attributes:
        board: The scores.
        open_proposal: What was proposed last and is not answered, with the one who did it.
        accepted: The assignment that both agreed on.
        turns: Every legal turn so far, with its player.
    """

    board: Board
    open_proposal: tuple[int, Assignment] | None = None
    accepted: Assignment | None = None
    turns: list[tuple[int, Said]] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether a proposal was accepted."""
        return self.accepted is not None

    @property
    def reward(self) -> float:
        """The accepted assignment's value over the best one's, 0 to 1; 0 without agreement."""
        return self.board.value(self.accepted) / self.board.best if self.accepted else 0.0

    def say(self, player: int, text: str) -> Said:
        """Take a player's turn.

        Args:
            player: 0 or 1.
            text: What the player wrote, tag and all.

        Returns:
            What the other player hears.

        Raises:
            IllegalMove: The rules do not allow it; nothing has changed.
        """
        said = read_said(text)
        proposed = self.open_proposal
        if proposed is None and said.tag in _ANSWERS:
            raise IllegalMove(f"there is no proposal to {said.tag}")
        if proposed is not None and proposed[0] == player and said.tag in _ANSWERS:
            raise IllegalMove("that proposal is your own; the other player answers it")
        if proposed is not None and proposed[0] != player and said.tag not in _ANSWERS:
            raise IllegalMove("answer the proposal first, with [accept] or [reject]")
        if said.tag is Tag.PROPOSE:
            self.open_proposal = player, parse_proposal(said.text, self.board.names)
        elif said.tag in _ANSWERS and proposed is not None:
            self.accepted = proposed[1] if said.tag is Tag.ACCEPT else None
            self.open_proposal = None
        self.turns.append((player, said))
        return said
