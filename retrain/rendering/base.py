"""The `Renderer` protocol: messages to tokens and back, by the model's own template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from retrain.environment.base import ToolSchema
from retrain.types import Action, Message


class Renderer(Protocol):
    """Turns messages into the tokens to append, and sampled tokens into an `Action`."""

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """Tokens that end an assistant turn."""
        ...

    @property
    def pad_token_id(self) -> int:
        """A token to pad and to fill placeholders with (the tokenizer's eos where it has none)."""
        ...

    def first(self, messages: Sequence[Message], tools: Sequence[ToolSchema] = ()) -> list[int]:
        """The ids of a whole first prompt, generation prompt included.

        Raises:
            RenderingFailure: The template refuses the messages.
        """
        ...

    def delta(
        self,
        action: Action,
        messages: Sequence[Message],
        last_id: int,
        tools: Sequence[ToolSchema] = (),
    ) -> list[int]:
        """The ids that a reply appends after a sampled turn, next generation prompt included.

        Args:
            action: The turn that `messages` reply to.
            messages: The reply.
            last_id: The last id of that turn, to reconcile it with the template's terminator.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template cannot express the reply exactly.
        """
        ...

    def parse(self, output_ids: Sequence[int]) -> Action:
        """Read a sampled turn. What cannot be read becomes `Action.parse_error`, never raises."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens included."""
        ...
