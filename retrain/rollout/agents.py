"""Episodes as plain calls: prompts in, samples out, over any engine that takes and gives token ids.

`agent_rollout_to_sample` plays one episode; `generate_rollout_batch` plays many, and is what
`RolloutConfig.generate_fn` takes once its keyword arguments are bound (`functools.partial`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from retrain.compose import agent_rollouts
from retrain.engine.base import InferenceEngine
from retrain.errors import ConfigError
from retrain.rollout.request import GroupRequest
from retrain.sample import Sample
from retrain.types import Task

PLAYING: ContextVar[GroupRequest | None] = ContextVar("retrain_playing", default=None)
"""What a rollout manager plays in the running task; None where a call stands alone."""

THROUGH: ContextVar[Callable[[InferenceEngine], InferenceEngine] | None] = ContextVar(
    "retrain_through", default=None
)
"""Puts the gate of the rollout manager in play before an engine; None where there is none."""


async def agent_rollout_to_sample(
    prompt: str | Task,
    *,
    environment_cls: Callable[..., Any],
    endpoint: InferenceEngine,
    tokenizer: Any,
    **how: Any,
) -> Sample:
    """Play one episode and give it as a sample.

    Args:
        prompt: The prompt, or a whole task.
        environment_cls: Makes the environment: a class, or a function without arguments.
        endpoint: Writes the model's turns: `SGLangEngine(url)`, `OpenAIEngine(url)` …
        tokenizer: The model's tokenizer, with its chat template.
        **how: As in `generate_rollout_batch`.

    Raises:
        ConfigError: The episode has several samples, as its history is rewritten.
    """
    samples = await generate_rollout_batch(
        [prompt], environment_cls=environment_cls, endpoint=endpoint, tokenizer=tokenizer, **how
    )
    if len(samples) != 1:
        raise ConfigError(
            f"the episode has {len(samples)} samples, as its history is rewritten; use "
            "generate_rollout_batch, which gives them all"
        )
    return samples[0]


async def generate_rollout_batch(
    prompts: Sequence[str | Task],
    *,
    environment_cls: Callable[..., Any],
    endpoint: InferenceEngine,
    tokenizer: Any,
    max_turns: int | None = 10,
    max_response_len: int = 2048,
    temperature: float = 1.0,
    seed: int = 0,
) -> list[Sample]:
    """Play one episode for each prompt, all at the same time.

    Args:
        prompts: Prompts or tasks; where one stands several times, its episodes are a group and
            have the same world and different seeds.
        environment_cls: Makes the environment: a class, or a function without arguments.
        endpoint: Writes the model's turns.
        tokenizer: The model's tokenizer, with its chat template.
        max_turns: Most model turns of an episode.
        max_response_len: Most tokens of an episode after its first prompt.
        temperature: Of the sampling.
        seed: The run's seed.

    Returns:
        A sample for each prompt, in order, its reward what the environment gave; several, one after
        the other and with one `rollout_id`, where an environment rewrites history. An episode that
        failed is a sample with `remove_sample`.

    Raises:
        RetrainError: The template cannot be used, or the engine fails after its retries.
    """
    through = THROUGH.get()
    play = agent_rollouts(
        environment_cls,
        endpoint if through is None else through(endpoint),
        tokenizer,
        max_turns=max_turns,
        max_response_len=max_response_len,
        temperature=temperature,
        seed=seed,
    )
    return await play(_members(prompts))


def _members(prompts: Sequence[str | Task]) -> list[tuple[GroupRequest, int]]:
    """What each prompt is to be played as: its group, and its place there.

    In a manager's group the tasks are those that are given: `generate_fn` may have changed them.
    """
    playing = PLAYING.get()
    seen: Counter[str] = Counter()
    indices: dict[str, int] = {}
    members = []
    for number, prompt in enumerate(prompts):
        task = prompt if isinstance(prompt, Task) else Task(f"prompt-{prompt}", prompt)
        index = indices.setdefault(task.id, number)
        if playing is None:
            request = GroupRequest(index, task, 0)
        else:
            request = GroupRequest(playing.index, task, playing.visit)
        members.append((request, seen[task.id]))
        seen[task.id] += 1
    return members
