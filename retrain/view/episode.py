"""`Episode`: one whole episode as a reader sees it, token by token.

Length symbol: T tokens of one stream, prompt and response.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from retrain.view.summary import EpisodeSummary


class Author(StrEnum):
    """Who wrote a stretch of tokens."""

    PROMPT = "prompt"
    MODEL = "model"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of tokens of one author.

    Attributes:
        author: Who wrote it.
        turn: The model turn it belongs to, over the whole episode; -1 for a prompt.
        start: The first token's position in its stream.
        end: The position after the last token.
        action: What was read in a model turn: text, reasoning, tool_calls, parse_error.
        finish_reason: Why the engine stopped.
        versions: (tokens, weight version) of each stretch of a model turn, in order.
        reward: The environment's reward for a model turn.
        info: The environment's info for a model turn.
        cached_tokens: Prompt tokens that the engine did not compute again.
    """

    author: Author
    turn: int
    start: int
    end: int
    action: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    versions: tuple[tuple[int, str], ...] = ()
    reward: float | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stream:
    """One token stream: a segment of an episode.

    Attributes:
        ids: [T] token ids.
        texts: [T] the text that each token wrote; "" where it shares the characters of the token
            before it.
        mask: [T] 1 where the token is trained on.
        logprobs: [T] the engine's logprob in nats; None where nobody sampled the token.
        trainer_logprobs: [T] the trainer's before its first update; None where it is not known.
        spans: Who wrote what, in order; together they cover the stream.
        exact: False where the run did not record which token wrote which characters: then the
            first token of a span has its whole text.
        images: The images that it shows, in their order: paths, addresses or `data:` URIs.
    """

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float | None, ...]
    trainer_logprobs: tuple[float | None, ...]
    spans: tuple[Span, ...]
    exact: bool
    images: tuple[str, ...] = ()

    def text(self, span: Span) -> str:
        """The text of a span."""
        return "".join(self.texts[span.start : span.end])


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait of an episode, in seconds since it began; `kind` and `turn` as in `Timing`."""

    kind: str
    turn: int
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode.

    Attributes:
        summary: What the list shows of it.
        group: The id of its group.
        streams: Its token streams, one per segment.
        prompt: Text or messages of the first observation.
        label: The task's expected answer.
        metadata: The task's metadata.
        seed: Which episode it was.
        normalised: Reward by component after its normalisation, where the setup says so.
        component_failures: Why a reward component failed, by component.
        waits: Where the time went.
        error: boundary, reason and traceback text of a failure; empty where there is none.
        weight_versions: The versions that wrote it, in order, each once.
    """

    summary: EpisodeSummary
    group: str
    streams: tuple[Stream, ...]
    prompt: Any
    label: Any
    metadata: Mapping[str, Any]
    seed: Mapping[str, Any]
    normalised: Mapping[str, float]
    component_failures: Mapping[str, str]
    waits: tuple[Wait, ...]
    error: Mapping[str, Any]
    weight_versions: tuple[str, ...]
