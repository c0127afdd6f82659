"""Multi-turn work whose every token is known beforehand, so that two loops do exactly the same.

Episodes of given turns and lengths in a tool environment as TRL takes it, and a random Qwen3 that
writes them. A token follows from the last token and its position alone: one table look-up on the
logits of every forward that generates, by the same code on both sides.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from multiturn_model import END, call, make_model, make_tokenizer, qwen3_template, word
from torch import Tensor

from retrain.environment import make_environment_factory
from retrain.rendering import DeltaRenderer
from retrain.rollout.sources import RowKeys, list_tasks
from retrain.types import Message

ENVIRONMENT = "multiturn_workload:Notebook"


class Notebook:
    """A tool environment as TRL's `environment_factory` takes it."""

    def reset(self, **row: Any) -> None:
        """Begin with an empty page."""
        self.letters = 0

    def write(self, text: str) -> str:
        """Write text onto the page.

        Args:
            text: What to write.

        Returns:
            How long the page is now.
        """
        self.letters += len(text)
        return f"{self.letters} letters"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a workload is made of.

    Attributes:
        rollouts: Episodes.
        turns: Fewest and most model turns of an episode.
        words: Fewest and most words that the model writes in a turn.
        prompt_words: Words of the first prompt.
        hidden: Width of the model.
        layers: Its layers.
    """

    rollouts: int
    turns: tuple[int, int]
    words: tuple[int, int]
    prompt_words: int
    hidden: int
    layers: int

    @property
    def varied(self) -> bool:
        """Whether episodes differ; else all have the same prompt, turns and lengths."""
        return self.turns[0] != self.turns[1]

    def draw(self, rng: random.Random) -> list[int]:
        """Words of each turn: turns uniform, words log-uniform, so that few turns are long."""
        turns = rng.randint(*self.turns)
        low, high = map(math.log, self.words)
        return [round(math.exp(rng.uniform(low, high))) for _ in range(turns)]


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts, a model and a tokenizer, and what the model will write.

    Attributes:
        rows: A dataset row per episode.
        tokenizer: With TRL's Qwen3 template.
        renderer: Ours, over the same tokenizer.
        model: Random weights.
        table: [positions, vocabulary] the token that follows a token at a position; 0 for none.
        turns: Model turns by episode.
        sampled: Tokens that the model writes, by episode.
    """

    rows: list[dict[str, Any]]
    tokenizer: Any
    renderer: DeltaRenderer
    model: Any
    table: Tensor
    turns: list[int]
    sampled: list[int]

    @property
    def positions(self) -> int:
        """Most tokens of an episode."""
        return int(self.table.shape[0])


def make_workload(shape: Shape, seed: int = 0) -> Workload:
    """Draw episodes whose streams never want two different tokens after one (position, token)."""
    tokenizer = make_tokenizer(qwen3_template())
    writer = _Writer(shape, tokenizer, DeltaRenderer(tokenizer), random.Random(seed))
    for rollout in range(shape.rollouts):
        writer.add(rollout)
    positions = max(position for position, _ in writer.follows) + 2
    table = torch.zeros((positions, len(tokenizer)), dtype=torch.long)
    for (position, token), following in writer.follows.items():
        table[position, token] = following
    return Workload(
        writer.rows,
        tokenizer,
        writer.renderer,
        make_model(shape.hidden, shape.layers, tokenizer, positions),
        table,
        writer.turns,
        writer.sampled,
    )


class _Writer:
    """Writes episodes one by one, each beside those that stand."""

    def __init__(
        self, shape: Shape, tokenizer: Any, renderer: DeltaRenderer, rng: random.Random
    ) -> None:
        self.shape, self.tokenizer, self.renderer, self.rng = shape, tokenizer, renderer, rng
        self.rows: list[dict[str, Any]] = []
        self.turns: list[int] = []
        self.sampled: list[int] = []
        self.follows: dict[tuple[int, int], int] = {}
        self._tools = make_environment_factory(ENVIRONMENT)().tools

    def add(self, rollout: int, attempts: int = 500) -> None:
        """Draw an episode until it fits."""
        number = rollout if self.shape.varied else 0
        for _ in range(attempts):
            row = self._row(number, self.rng.randrange(40) if self.shape.varied else 0)
            lengths = self.shape.draw(self.rng)
            written = self._play(row, word(number), lengths)
            if all(self.follows.get(key, token) == token for key, token in written.items()):
                self.follows |= written
                self.rows.append(row)
                self.turns.append(len(lengths))
                self.sampled.append(len(written))
                return
        raise RuntimeError(f"episode {rollout} does not fit beside the others")

    def _row(self, rollout: int, extra: int) -> dict[str, Any]:
        prompt = "".join(word(n) for n in range(self.shape.prompt_words + extra))
        return {
            "prompt": [
                {"role": "system", "content": prompt},
                {"role": "user", "content": f"fill page {rollout}"},
            ]
        }

    def _play(
        self, row: dict[str, Any], text: str, lengths: Sequence[int]
    ) -> dict[tuple[int, int], int]:
        """What follows each (position, token), over the tokens that the model writes."""
        (task,) = list_tasks([row], RowKeys(), "rows")
        stream = self.renderer.first(task.messages, self._tools)
        page, follows = Notebook(), {}
        page.reset()
        for turn, length in enumerate(lengths, 1):
            last = turn == len(lengths)
            written = text * length if last else call(text * length)
            ids = self.tokenizer.encode(written + END, add_special_tokens=False)
            for token in ids:
                follows[len(stream) - 1, stream[-1]] = token
                stream.append(token)
            if not last:
                action = self.renderer.parse(ids)
                told = page.write(text * length)
                made = action.tool_calls[0]
                reply = Message("tool", told, tool_call_id=made.id, name=made.name)
                stream += self.renderer.delta(action, [reply], ids[-1], self._tools)
        return follows
