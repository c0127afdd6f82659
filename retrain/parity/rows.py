"""What enters a framework's loss, as values that can be compared and hashed.

Length symbols: R response tokens.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from retrain.report.sample_notes import SampleNotes
from retrain.sample import Sample

Place = tuple[int, int]
"""A sample's index in the iteration, and which of its episode's samples it is, from 0."""


@dataclass(frozen=True, slots=True)
class LossRow:
    """One sample as a framework trains on it.

    Attributes:
        index: The sample's index: group index times G, plus its place in the group.
        part: Which of its episode's samples it is, from 0.
        tokens: Prompt and response.
        mask: [R] 1 on the tokens that the loss is over.
        logprobs: [R] the engine's, that the importance ratio is taken against.
        reward: The raw reward; None where the sample trains nothing.
        advantage: The advantage.
        weights: [R] what a unit of a token's loss adds to the loss of its optimizer step; empty
            where nobody trains.
        step: The optimizer step, from 0.
        rewards: Raw and normalised reward by component, and the reward that is trained on where
            that is not the raw one, by name; None where a backend does not say.
    """

    index: int
    part: int
    tokens: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float | None
    advantage: float
    weights: tuple[float, ...] = ()
    step: int = 0
    rewards: Mapping[str, float] | None = None

    @property
    def place(self) -> Place:
        """What the row is found by, whatever the order of rows."""
        return self.index, self.part

    @property
    def trained(self) -> int:
        """How many tokens are trained on."""
        return sum(self.mask)


@dataclass(frozen=True, slots=True)
class LossReading:
    """What one backend gives to its loss.

    Attributes:
        backend: Its name.
        source: Where it was read, in words.
        rows: The rows, in any order.
        aggregation: How token losses make a step's loss: "token" (mean over its tokens),
            "sequence" (mean over its rollouts of the mean over a rollout's tokens) or "constant"
            (sum over a constant, mean over its rollouts).
        constant: The constant of "constant".
        untrained_counts: Tokens by which a row without any trained token enters a step's count.
        notes: What else the user should know.
    """

    backend: str
    source: str
    rows: tuple[LossRow, ...]
    aggregation: str = "token"
    constant: int = 1
    untrained_counts: int = 0
    notes: tuple[str, ...] = ()


def rewards_by_name(sample: Sample) -> dict[str, float]:
    """What `LossRow.rewards` holds, from a sample's notes; empty on an episode's later ones."""
    notes = SampleNotes.of(sample)
    normalised = {f"{name}, normalised": value for name, value in notes.normalised.items()}
    trained = {} if notes.trained is None else {"trained on": notes.trained}
    return {**notes.rewards, **normalised, **trained}


def digest(rows: Iterable[LossRow]) -> str:
    """SHA-256 of rows: tokens, masks, logprobs, rewards and advantages, numbers as float32.

    Both frameworks train on float32. The order of rows does not count, nor do the weights.
    """
    found = hashlib.sha256()
    for row in sorted(rows, key=lambda row: row.place):
        found.update(json.dumps([row.index, row.part, row.tokens, row.mask]).encode())
        reward = math.nan if row.reward is None else row.reward
        found.update(_packed((*row.logprobs, reward, row.advantage)))
    return found.hexdigest()


def float32(values: Sequence[float]) -> tuple[float, ...]:
    """The nearest float32 of each value."""
    return struct.unpack(f"<{len(values)}f", _packed(values))


def _packed(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)
