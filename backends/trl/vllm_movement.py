"""Notices an engine whose weights do not follow the trainer's."""

from __future__ import annotations

from collections.abc import Sequence

from retrain.engine.base import Generation, SamplingParams
from retrain.engine.http_logprobs import PROBE_IDS
from retrain.errors import BackendFailure

PROBE: Sequence[int] = PROBE_IDS
PROBE_PARAMS = SamplingParams(8, temperature=1.0)
PROBE_SEED = 7
"""The probe is the same request after every sync; other weights answer it otherwise."""

APART = 0.5
"""Mean |train - rollout logprob| in nats of two different models. Kernels and bfloat16 account for
at most a few hundredths."""
STALE = 0.05
GROWTH = 5.0
"""With the same answer to the probe as before the last sync, the weights are stale where the gap is
more than `STALE` nats and `GROWTH` times what it was with fresh ones. Without it, a gap of that
size may have other reasons, and an unchanged answer too: a step may be too small for bfloat16."""


class WeightMovement:
    """Compares the engine's answers to a probe, and its logprobs to the trainer's."""

    def __init__(self, engine: str) -> None:
        """Begin before the first sync.

        Args:
            engine: What it is, for the message.
        """
        self._engine = engine
        self._answer: tuple[Sequence[int], Sequence[float]] | None = None
        self._still = 0
        self._fresh = 0.0

    def synced(self, answer: Generation) -> None:
        """Take the answer to the probe after a sync of new weights."""
        given = (answer.output_ids, answer.logprobs)
        self._still = self._still + 1 if given == self._answer else 0
        self._answer = given

    def measured(self, gap: float) -> None:
        """Take mean |train - rollout logprob| in nats of tokens that the present weights wrote.

        Raises:
            BackendFailure: The engine does not generate with the trainer's weights.
        """
        if gap > APART:
            raise BackendFailure(
                f"{self._engine} does not generate with the trainer's weights: its logprobs are "
                f"{gap:.3g} nats from the trainer's on average, on the policy that it should "
                f"have (expected below 0.05); {self._remedy}"
            )
        if not self._still:
            self._fresh = max(self._fresh, gap)
        self.drifted(gap)

    def drifted(self, gap: float) -> None:
        """Take mean |train - rollout logprob| in nats of tokens of which older weights wrote some.

        Raises:
            BackendFailure: The weights do not move.
        """
        if self._still and gap > max(STALE, GROWTH * self._fresh):
            raise BackendFailure(
                f"{self._engine}: the weights do not move: after {self._still} syncs it still "
                f"answers a probe as before, while its logprobs went from {self._fresh:.3g} to "
                f"{gap:.3g} nats from the trainer's; {self._remedy}"
            )

    @property
    def _remedy(self) -> str:
        return (
            "see that it serves the model of model.name_or_path, was started with "
            "--weight-transfer-config, and that nobody else updates it"
        )
