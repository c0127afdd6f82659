"""The `Renderer` protocol: messages to tokens and back, by the model's own template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from retrain.environment.base import ToolSchema
from retrain.types import Action, Message

HistoryMode: TypeAlias = Literal["keep", "template"]
"""`rendering.history`: append only, or what the template writes of the whole conversation."""


class Renderer(Protocol):
    """Turns messages into the tokens to append, and sampled tokens into an `Action`."""

    @property
    def history(self) -> HistoryMode:
        """How the prompts of later turns are made: by `delta`, or by `whole`."""
        ...

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

    def whole(
        self,
        messages: Sequence[Message],
        trusted: Sequence[Message] = (),
        tools: Sequence[ToolSchema] = (),
    ) -> list[int]:
        """The ids of a whole conversation, generation prompt included.

        Args:
            messages: The conversation; control tokens in it stay text.
            trusted: Messages whose control tokens count as such: those of the first prompt.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template refuses the conversation, or drops part of it.
        """
        ...

    def continuation(self, stream: Sequence[int], whole: Sequence[int]) -> list[int] | None:
        """What a whole conversation adds to a stream; None where it is not what stands in it."""
        ...

    def message(self, action: Action, output_ids: Sequence[int]) -> Message:
        """A sampled turn as the message that stands for it in a whole conversation."""
        ...

    def parse(self, output_ids: Sequence[int]) -> Action:
        """Read a sampled turn. What cannot be read becomes `Action.parse_error`, never raises."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens included."""
        ...

    @property
    def decodes_bytes(self) -> bool:
        """Whether every token has fixed bytes, which `decode` reads as UTF-8."""
        ...


class TurnRenderer(Renderer, Protocol):
    """A renderer that also writes an assistant turn as the model would have sampled it."""

    def turn(
        self, history: Sequence[Message], message: Message, tools: Sequence[ToolSchema] = ()
    ) -> list[int]:
        """The ids of `message`, terminator included.

        Raises:
            RenderingFailure: The template writes no such turn.
        """
        ...
