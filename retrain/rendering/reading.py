"""`TurnReader`: sampled tokens to what the model did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrain.rendering.parsing.reasoning import split_reasoning
from retrain.types import Action, Message


class TurnReader:
    """Reads sampled turns.

    Attributes:
        prefix: What the generation prompt itself writes of every turn.
    """

    def __init__(
        self,
        parser: Callable[[str], Action],
        decode: Callable[[Sequence[int]], str],
        ends: frozenset[int],
        prefix: str,
    ) -> None:
        """Take what reading needs.

        Args:
            parser: Reads a turn's text.
            decode: The text of ids, special tokens included.
            ends: The tokens that end a turn.
            prefix: What the generation prompt itself writes of every turn.
        """
        self.prefix = prefix
        self._parser = parser
        self._decode = decode
        self._ends = ends

    def action(self, output_ids: Sequence[int]) -> Action:
        """Read a turn. What cannot be read becomes `Action.parse_error`, never raises."""
        return self._parser(self._text(output_ids))

    def message(self, action: Action, output_ids: Sequence[int]) -> Message:
        """A turn as the message that stands for it in a whole conversation.

        Args:
            action: What was read in the turn.
            output_ids: The turn; where a call in it cannot be read, its text is the content.
        """
        if action.parse_error is None:
            return action.message
        written = split_reasoning(self._text(output_ids))
        return Message("assistant", written.rest.strip(), written.reasoning)

    def read_back(self, ids: Sequence[int]) -> Message:
        """The message in a turn that a template wrote.

        Args:
            ids: It ends with the first token that ends a turn; a template may write others behind.
        """
        ended = next((at for at, index in enumerate(ids, 1) if index in self._ends), len(ids))
        return self.message(self.action(ids[:ended]), ids[:ended])

    def _text(self, output_ids: Sequence[int]) -> str:
        """The text of a turn, without the tokens that end it."""
        ids = list(output_ids)
        while ids and ids[-1] in self._ends:
            ids.pop()
        return self.prefix + self._decode(ids)
