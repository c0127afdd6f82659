"""Seeds: everything random gets its seed from what it is, never from when it runs.

A seed is a hash of (run seed, split, task id, visit, sample index, turn), so it does not depend on
the iteration, on the order in which episodes finish, or on the backend.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


def derive_seed(*parts: str | int) -> int:
    """Hash `parts` into a seed.

    Args:
        *parts: What the seed belongs to; order and type both count (1 and "1" differ).

    Returns:
        An integer in [0, 2**63).
    """
    key = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@dataclass(frozen=True, slots=True)
class EpisodeSeed:
    """Names one episode, and gives the seed of everything random in it.

    Attributes:
        run: The run's seed (`seed:` of the configuration).
        split: "train" or the evaluation's name.
        task_id: The task's id.
        visit: How often the task had been drawn before (0 the first time).
        sample_index: Position in the group, 0 to G - 1.
        attempt: How often the episode was begun again with other turn seeds, because it failed in
            a way that the same seeds would repeat.
    """

    run: int
    split: str
    task_id: str
    visit: int
    sample_index: int
    attempt: int = 0

    @property
    def environment(self) -> int:
        """The seed of `Environment.reset`: one for the whole group.

        A group's rewards are compared with each other, so every member starts from the same state.
        """
        return derive_seed("environment", self.run, self.split, self.task_id, self.visit)

    def turn(self, turn: int) -> int:
        """The seed with which the engine samples turn number `turn` (0 is the first)."""
        episode = (self.run, self.split, self.task_id, self.visit, self.sample_index, self.attempt)
        return derive_seed("turn", *episode, turn)
