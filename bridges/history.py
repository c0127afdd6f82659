"""What the model reads next: a reply behind its last turn, or a prompt that begins a new stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from retrain.environment.base import ToolSchema
from retrain.errors import EnvironmentFailure
from retrain.rendering.base import Renderer
from retrain.types import Message, Observation, Turn


@dataclass(frozen=True, slots=True)
class Reply:
    """What follows a turn.

    Attributes:
        ids: What the reply appends to the stream; of a rewritten history the whole new prompt.
        messages: What the environment said: of a history that it repeated only what is new.
        rewritten: Whether `ids` begin a new stream.
        images: The images that `ids` show, in order.
    """

    ids: list[int]
    messages: tuple[Message, ...]
    rewritten: bool = False
    images: tuple[str, ...] = ()


class History(Protocol):
    """The conversation of one episode."""

    def begin(self, messages: tuple[Message, ...], tools: Sequence[ToolSchema]) -> list[int]:
        """The ids of the first prompt."""
        ...

    def reply(
        self,
        turn: Turn,
        observation: Observation,
        stream: Sequence[int],
        tools: Sequence[ToolSchema],
    ) -> Reply:
        """Render what the environment said to the last turn.

        Args:
            turn: That turn.
            observation: What the environment said.
            stream: The segment so far; it ends with the turn.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template cannot express it.
            EnvironmentFailure: A whole new history that holds nothing.
        """
        ...


def make_history(renderer: Renderer) -> History:
    """The history of one episode, as the renderer's mode has it."""
    return TemplateHistory(renderer) if renderer.history == "template" else KeptHistory(renderer)


class KeptHistory:
    """Append-only: a new stream begins only where the environment rewrites what was said.

    Whether it does is told by the messages: a history that begins with all of ours is a reply.
    """

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._prompt: tuple[Message, ...] = ()
        self._given: tuple[Message, ...] = ()
        self._rounds: list[tuple[Turn, tuple[Message, ...]]] = []

    def begin(self, messages: tuple[Message, ...], tools: Sequence[ToolSchema]) -> list[int]:
        """The ids of the first prompt."""
        self._prompt = self._given = messages
        return self._renderer.first(messages, tools)

    def reply(
        self,
        turn: Turn,
        observation: Observation,
        stream: Sequence[int],
        tools: Sequence[ToolSchema],
    ) -> Reply:
        """Render a delta, or a new prompt; see `History.reply`."""
        messages = observation.messages
        if observation.rewrite:
            known = self._known(turn)
            if _whole(messages)[: len(known)] != known:
                self._given, self._rounds = messages, []
                ids = self._renderer.whole(messages, self._prompt, tools)
                return Reply(ids, messages, rewritten=True, images=images_of(messages))
            messages = messages[len(known) :]
        self._rounds.append((turn, messages))
        ids = self._renderer.delta(turn.action, messages, stream[-1], tools)
        return Reply(ids, messages, images=images_of(messages))

    def _known(self, last: Turn) -> tuple[Message, ...]:
        """Everything said so far, the model's turns as the environment was given them."""
        said: list[Message] = []
        for turn, reply in self._rounds:
            said += (turn.action.message, *reply)
        return (*self._given, *said, last.action.message)


class TemplateHistory:
    """Every prompt is what the template writes of the whole conversation.

    Where that continues the stream, the stream goes on, what was sampled untouched; where the
    template rewrites what stands in it (earlier reasoning, say), a new stream begins.
    """

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._prompt: tuple[Message, ...] = ()
        self._messages: tuple[Message, ...] = ()

    def begin(self, messages: tuple[Message, ...], tools: Sequence[ToolSchema]) -> list[int]:
        """The ids of the first prompt."""
        self._prompt = self._messages = messages
        return self._renderer.first(messages, tools)

    def reply(
        self,
        turn: Turn,
        observation: Observation,
        stream: Sequence[int],
        tools: Sequence[ToolSchema],
    ) -> Reply:
        """Render the whole conversation; see `History.reply`."""
        said = observation.messages
        if observation.rewrite:
            self._messages = _whole(said)
        else:
            turned = self._renderer.message(turn.action, turn.output_ids)
            self._messages = (*self._messages, turned, *said)
        whole = self._renderer.whole(self._messages, self._prompt, tools)
        more = self._renderer.continuation(stream, whole)
        if more is None:
            return Reply(whole, said, rewritten=True, images=images_of(self._messages))
        return Reply(more, said, images=images_of(said))


def images_of(messages: Sequence[Message]) -> tuple[str, ...]:
    """The paths or URLs of what messages show, in order."""
    return tuple(image.source for message in messages for image in message.images)


def _whole(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    if not messages:
        raise EnvironmentFailure(
            "step: Observation(rewrite=True) holds no message; it must be the whole new history"
        )
    return messages
