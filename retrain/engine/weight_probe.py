"""What tells a server's weights from others: the likeliest next token of a few fixed prompts.

A trainer that writes weights for servers puts its own answers beside them. A server that has loaded
them is asked the same. Kernels and rounding keep the two apart by more than one small step of
training moves them, so two things are watched over the updates: a server that keeps its weights
answers as before, while the trainer's answers drift away; and one that has loaded a part of them
drifts apart from the trainer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from retrain.errors import EngineFailure

PROMPTS: tuple[tuple[int, ...], ...] = tuple(tuple(range(k, k + 8)) for k in range(1, 9))
"""Eight prompts of eight tokens, which any vocabulary has."""

ANSWERS = "retrain_probe.json"
"""File beside the weights: the logprob in nats of the likeliest token after each prompt."""

APART = 0.5
"""Mean difference in nats between two different models. Other kernels and bfloat16 account for some
hundredths, 8-bit weights for less than a tenth, and experts that are chosen otherwise for more:
random ones in bfloat16 are 0.05 to 0.35 from the same in float32 (Qwen3-MoE, 8 layers, 4 of 32)."""

MOVED = 0.02
"""Mean movement in nats that no server's rounding hides in all answers at once."""

FOLLOWED = 0.1
"""A server that has the trainer's weights moves by about as much; one that keeps its own, by the
noise of its kernels."""

NOISE, GROWTH = 0.05, 5.0
"""A server has other weights where it is more than `NOISE` nats from the trainer, and more than
`GROWTH` times what it was at first."""


def write_answers(folder: Path, logprobs: Sequence[float]) -> None:
    """Put a trainer's answers beside the weights that gave them.

    Args:
        folder: Where the weights are.
        logprobs: One for each of `PROMPTS`.
    """
    (folder / ANSWERS).write_text(json.dumps({"logprobs": list(logprobs)}), encoding="utf-8")


def read_answers(folder: Path) -> tuple[float, ...] | None:
    """The trainer's answers; None where the weights were not written for servers by retrain.

    Raises:
        EngineFailure: The file is damaged.
    """
    try:
        text = (folder / ANSWERS).read_text(encoding="utf-8")
    except OSError:
        return None
    try:
        found = tuple(float(value) for value in json.loads(text)["logprobs"])
    except (ValueError, KeyError, TypeError) as error:
        raise EngineFailure(f"{folder / ANSWERS}: is damaged; write the weights again") from error
    if len(found) != len(PROMPTS) or not all(map(math.isfinite, found)):
        raise EngineFailure(f"{folder / ANSWERS}: expected {len(PROMPTS)} finite numbers")
    return found


@dataclass(frozen=True, slots=True)
class _Seen:
    """Answers of one server at one update.

    Attributes:
        given: Its own.
        expected: The trainer's.
        first: How far apart the two were after its first update, in nats.
    """

    given: Sequence[float]
    expected: Sequence[float]
    first: float


class WeightMovement:
    """Compares the answers of servers with the trainer's, update after update."""

    def __init__(self) -> None:
        """Begin before the first update."""
        self._anchors: dict[str, _Seen] = {}

    def require_fresh(self, url: str, given: Sequence[float], expected: Sequence[float]) -> None:
        """Take a server's answers after it has loaded weights.

        How far both have moved is measured from an anchor, until the trainer has moved by `MOVED`.

        Args:
            url: The server.
            given: Its answers.
            expected: The trainer's.

        Raises:
            EngineFailure: It has other weights than those that it was to load.
        """
        apart = _distance(given, expected)
        anchor = self._anchors.get(url) or _Seen(given, expected, apart)
        moved, followed = _distance(anchor.expected, expected), _distance(anchor.given, given)
        if moved > MOVED and followed < FOLLOWED * moved:
            raise EngineFailure(
                f"{url}: keeps old weights: it says that it has loaded the new ones, and its "
                f"logprobs of a probe moved by {followed:.3g} nats, while the trainer's moved by "
                f"{moved:.3g}; restart it"
            )
        most = min(APART, max(NOISE, GROWTH * anchor.first))
        if not apart <= most:
            raise EngineFailure(
                f"{url}: has other weights than those it was to load, or a part of them: its "
                f"logprobs of a probe are {apart:.3g} nats from the trainer's (expected at most "
                f"{most:.3g}); it must serve the model of model.name_or_path, and load all of it"
            )
        if moved > MOVED or url not in self._anchors:
            self._anchors[url] = _Seen(given, expected, anchor.first)


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Mean absolute difference in nats."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)
