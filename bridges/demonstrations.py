"""Demonstrations become Samples by the same episode loop that makes rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bridges.data_format import DataFormatBridge
from bridges.environment import EnvironmentBridge
from bridges.limits import EpisodeLimits
from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.environment.base import Environment, ToolSchema
from retrain.environment.toolbox import chosen_names
from retrain.errors import DataError, EngineFailure
from retrain.rendering.base import TurnRenderer
from retrain.rollout.messages import read_messages
from retrain.sample import Sample, Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, Message, Observation, StepResult, Task


async def demonstration_samples(
    tasks: Sequence[Task],
    renderer: TurnRenderer,
    limits: EpisodeLimits,
    tools: Sequence[ToolSchema] = (),
) -> list[Sample]:
    """Turn recorded conversations into samples to imitate.

    Each assistant message is a turn whose tokens are trained; everything else is an observation.
    The tokens and masks are made by `EnvironmentBridge`, as those of rollouts are.

    Args:
        tasks: Rows with `messages` in their metadata, as `prompt_source` reads them.
        renderer: The model's renderer.
        limits: Bounds of an episode; a demonstration that does not fit is an error.
        tools: The tools that the prompt lists; of a row whose metadata has a list of names under
            `tools`, only these.

    Raises:
        DataError: Naming the row that cannot be used.
    """
    samples: list[Sample] = []
    for index, task in enumerate(tasks):
        samples += await _samples(index, task, renderer, limits, _chosen(task, tools))
    return samples


async def _samples(
    index: int,
    task: Task,
    renderer: TurnRenderer,
    limits: EpisodeLimits,
    tools: Sequence[ToolSchema],
) -> list[Sample]:
    messages = conversation(task)
    recording = _Recording(messages, tools)
    bounds = replace(limits, engine_retries=0, stop_strings=())
    bridge = EnvironmentBridge(renderer, lambda: recording, bounds)
    trajectory = await bridge.run(
        task,
        engine=_Player(messages, renderer, tools),
        params=SamplingParams(max_tokens=limits.max_response_len),
        seed=EpisodeSeed(0, "demonstrations", task.id, 0, 0),
    )
    if trajectory.status is not Status.COMPLETED:
        reason = trajectory.error.reason if trajectory.error else trajectory.stop_reason
        raise DataError(f"demonstration {task.id!r} cannot be used: {reason}")
    imitated = replace(trajectory, reward=1.0, group_index=index, index=index)
    return DataFormatBridge(renderer).to_samples(imitated, advantage=1.0)


def _chosen(task: Task, tools: Sequence[ToolSchema]) -> Sequence[ToolSchema]:
    """The tools that a row's prompt lists, as `ToolEnvironment` chooses them for an episode."""
    by_name = {str(tool["function"]["name"]): tool for tool in tools}
    try:
        names = chosen_names(task, by_name) if tools else None
    except ValueError as error:
        raise DataError(f"demonstration {task.id!r} cannot be used: {error}") from error
    return tools if names is None else [by_name[name] for name in by_name if name in names]


def conversation(task: Task) -> tuple[Message, ...]:
    """Read the recorded conversation of a row.

    Raises:
        DataError: There is none, it does not end with an assistant message, or it shows images.
    """
    rows: Any = task.metadata.get("messages")
    if rows is None:
        raise DataError(
            f"demonstration {task.id!r}: has no 'messages'; sft needs rows of recorded "
            "conversations: {'messages': [{'role': 'user', …}, {'role': 'assistant', …}, …]}"
        )
    messages = read_messages(f"demonstration {task.id!r}: 'messages'", rows)
    if messages[-1].role != "assistant":
        raise DataError(f"demonstration {task.id!r}: must end with an assistant message")
    if task.images or any(message.images for message in messages):
        raise DataError(
            f"demonstration {task.id!r}: shows images, and sft trains on text only; leave the row "
            "out, or train with grpo"
        )
    return messages


def _turn_positions(messages: Sequence[Message]) -> list[int]:
    return [position for position, message in enumerate(messages) if message.role == "assistant"]


class _Recording(Environment):
    """Plays back what the world said in a recorded conversation."""

    def __init__(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> None:
        self._messages = messages
        self._tools = tools
        self._ends = _turn_positions(messages)
        self._turn = 0

    @property
    def tools(self) -> Sequence[ToolSchema]:
        return self._tools

    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation(tuple(self._messages[: self._ends[0]]))

    async def step(self, action: Action) -> StepResult:
        self._turn += 1
        if self._turn == len(self._ends):
            return StepResult(Observation(), terminated=True)
        start, end = self._ends[self._turn - 1] + 1, self._ends[self._turn]
        return StepResult(Observation(tuple(self._messages[start:end])))


class _Player:
    """An engine that writes the recorded assistant messages; they have logprob 0.0."""

    capabilities = EngineCapabilities(seeded=True)

    def __init__(
        self,
        messages: Sequence[Message],
        renderer: TurnRenderer,
        tools: Sequence[ToolSchema],
    ) -> None:
        self._messages = messages
        self._renderer = renderer
        self._tools = tools
        self._ends = iter(_turn_positions(messages))

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        end = next(self._ends)
        ids = self._renderer.turn(self._messages[:end], self._messages[end], self._tools)
        if len(ids) > params.max_tokens:
            raise EngineFailure(
                f"its turn of {len(ids)} tokens does not fit in the {params.max_tokens} that "
                "max_response_len, max_tokens_per_turn and max_context_len leave; raise them"
            )
        return Generation(tuple(ids), (0.0,) * len(ids), FinishReason.STOP)

    async def abort(self, session_id: str) -> None:
        """Nothing runs."""

    async def release(self, session_id: str) -> None:
        """Nothing is kept."""
