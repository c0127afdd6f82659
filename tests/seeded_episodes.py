"""Episodes that are random but follow from their seeds alone, so that a replay can repeat them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from bridges import EnvironmentBridge, EpisodeLimits, RewardBridge, RolloutBridge, RolloutSettings
from bridges.policy import FailurePolicy
from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.environment.base import Environment
from retrain.errors import EngineFailure
from retrain.rendering import DeltaRenderer
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.types import Action, FinishReason, Message, Observation, StepResult, Task

WORDS = ("yes", "no", " 42", "é🙂漢", "\n", "<|im_end|>", '{"a": 1}', "tab\t", "!")


class SeededWorld(Environment):
    """Replies by its seed and by how far the episode is."""

    def __init__(self, *, suffix: str = " end", bonus: float = 0.0, secret: bool = False) -> None:
        self._suffix = suffix
        self._bonus = bonus
        self._secret = {"password": "hidden-password"} if secret else {}

    async def reset(self, task: Task, seed: int) -> Observation:
        self._rng = random.Random(seed)
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        reward = self._rng.random() + len(action.text) / 1000 + self._bonus
        info = {"length": len(action.text), **self._secret}
        if self._rng.random() < 0.2:
            return StepResult(Observation(), reward, terminated=True, info=info)
        text = "say " + "".join(self._rng.choices(WORDS, k=3)) + self._suffix
        return StepResult(Observation((Message("user", text),)), reward, info=info)


class SeededModel:
    """Writes random ids by the turn's seed."""

    capabilities = EngineCapabilities(seeded=True)

    def __init__(self, renderer: DeltaRenderer, *, fails: bool = False) -> None:
        self._renderer = renderer
        self._fails = fails

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        rng = random.Random(seed)
        if self._fails and rng.random() < 0.3:
            raise EngineFailure(f"the server answered 500 to {seed % 1000}")
        ids = [rng.randrange(1000, 90_000) for _ in range(rng.randint(1, 12))]
        ids.append(rng.choice(sorted(params.stop_token_ids)))
        logprobs = tuple(-rng.random() for _ in ids)
        return Generation(tuple(ids), logprobs, FinishReason.STOP, weight_version=str(seed % 3))

    async def abort(self, session_id: str) -> None:
        """Nothing runs."""

    async def release(self, session_id: str) -> None:
        """Nothing is kept."""


def make_rollouts(
    renderer: DeltaRenderer,
    engine: InferenceEngine,
    *,
    world: Callable[[], Environment] = SeededWorld,
    run_seed: int = 7,
) -> RolloutBridge:
    """A bridge over the seeded world; a failure is data, whatever it is."""
    limits = EpisodeLimits(max_response_len=600, max_turns=8, engine_retries=1)
    settings = RolloutSettings(
        params=SamplingParams(max_tokens=64),
        n_samples=4,
        run_seed=run_seed,
        policy=FailurePolicy(actions={}, max_failure_rate=1.0),
    )
    environment = EnvironmentBridge(renderer, world, limits)
    calculator = RewardCalculator([RewardComponent("environment", ComponentKind.ENVIRONMENT)])
    return RolloutBridge(environment, RewardBridge(calculator), engine, settings)
