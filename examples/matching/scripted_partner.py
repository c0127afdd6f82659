"""`ScriptedShyPartner`: follows the shy rules exactly, without a model."""

from __future__ import annotations

from random import Random

from .assignment import best_assignment, value_of
from .board import View
from .messages import Said, Tag
from .partner import Partner
from .proposal import parse_proposal
from .questions import asked_pair

VAGUE = ("Hard to say.", "It depends.", "I am not sure.")


class ScriptedShyPartner(Partner):
    """Tells one score when it is asked for exactly that one, and judges proposals by its own view.

    The rules:

    1. It volunteers nothing.
    2. A question about exactly one reviewer and one paper is answered with the score that it sees,
       or with the fact that it sees none.
    3. Everything else is answered vaguely.
    4. A proposal is accepted where it is good enough on what the partner sees: its value, unseen
       cells counted as the mean of the seen ones, is at least `demand` of the best value on that
       view. Every rejection lowers the demand by `patience`.

    Args:
        demand: The share of its own best value that it asks for at first.
        patience: By how much the share falls with every rejection.
    """

    replayable = True

    def __init__(self, *, demand: float = 0.75, patience: float = 0.1) -> None:
        self._demand = demand
        self._patience = patience

    async def begin(self, view: View, seed: int) -> None:
        """Look at the scores."""
        self._view = view
        self._guessed = view.guessed()
        self._best = value_of(self._guessed, best_assignment(self._guessed))
        self._random = Random(seed)
        self._asked_for = self._demand

    async def answer(self, heard: Said) -> str:
        """Answer by the rules above."""
        names = self._view.names
        if heard.tag is Tag.PROPOSE:
            return self._judge(value_of(self._guessed, parse_proposal(heard.text, names)))
        pair = asked_pair(heard.text, names)
        if pair is None:
            return f"[message] {self._random.choice(VAGUE)}"
        reviewer, paper = pair
        score = self._view.scores[reviewer][paper]
        about = f"{names.reviewer(reviewer)} on {names.paper(paper)}"
        return f"[message] {about}: {'I see no score' if score is None else score}"

    def _judge(self, value: float) -> str:
        if value >= self._asked_for * self._best:
            return "[accept]"
        self._asked_for -= self._patience
        return "[reject]"
