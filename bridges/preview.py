"""One episode without a model: the real environment and template, with turns that are given.

The dry run shows it, so that a mask can be read before anything is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bridges.environment import EnvironmentBridge, EnvironmentFactory
from bridges.limits import EpisodeLimits
from bridges.matches import play_match
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.base import Environment, ToolSchema
from retrain.environment.example_call import example_call
from retrain.errors import RenderingFailure
from retrain.rendering.base import TurnRenderer
from retrain.seeds import EpisodeSeed
from retrain.types import Action, Message, Observation, StepResult, Task, Trajectory

_TURNS = 2
_NO_LABEL = "An answer."


@dataclass(slots=True)
class _Conversation:
    """What has been said so far, and which tools there are."""

    messages: list[Message]
    tools: Sequence[ToolSchema] = ()


async def preview_episode(
    task: Task, renderer: TurnRenderer, make_environment: EnvironmentFactory, limits: EpisodeLimits
) -> Trajectory:
    """Play one episode with scripted turns.

    Where the environment has tools, the first turn calls the first of them with arguments of the
    right types; the next turn answers with the task's label. At most two turns are played.

    Args:
        task: What the episode is about.
        renderer: The model's renderer.
        make_environment: Makes the environment; called once.
        limits: Bounds of the episode.

    Returns:
        The trajectory, not yet scored. A failure is data on it, as in every episode.
    """
    bridge = EnvironmentBridge(renderer, make_environment, _shortened(limits))
    return await _play(task, renderer, bridge, _seed(task, 0))


async def preview_episodes(
    task: Task, renderer: TurnRenderer, make_environment: EnvironmentFactory, limits: EpisodeLimits
) -> tuple[Trajectory, ...]:
    """Play what `preview_episode` plays, and of several agents a whole match.

    Args:
        task: What it is about.
        renderer: The model's renderer.
        make_environment: Makes the environment, or the match.
        limits: Bounds of an episode.

    Returns:
        The trajectory of each seat, or the only one.
    """
    bridge = EnvironmentBridge(renderer, make_environment, _shortened(limits))
    factory = bridge.matches
    if factory is None or factory.casting is None:
        return (await preview_episode(task, renderer, make_environment, limits),)
    seeds = [_seed(task, seat) for seat in range(len(factory.casting.seats))]
    return await play_match(bridge, factory, task, seeds, partial(_play, task, renderer))


def _shortened(limits: EpisodeLimits) -> EpisodeLimits:
    return replace(limits, max_turns=min(_TURNS, limits.max_turns or _TURNS), engine_retries=0)


def _seed(task: Task, seat: int) -> EpisodeSeed:
    return EpisodeSeed(0, "preview", task.id, 0, seat)


async def _play(
    task: Task, renderer: TurnRenderer, bridge: EnvironmentBridge, seed: EpisodeSeed
) -> Trajectory:
    """Play one episode of a bridge with scripted turns."""
    conversation = _Conversation([])
    make, limits = bridge.make_environment, bridge.limits
    script = _Script(task, renderer, conversation)
    player = EnvironmentBridge(renderer, lambda: _Witnessed(make(), conversation), limits)
    return await player.run(
        task,
        engine=ScriptedEngine(lambda *_: script.next_turn()),
        params=SamplingParams(max_tokens=limits.max_response_len),
        seed=seed,
    )


class _Witnessed(Environment):
    """An environment whose side of the conversation is noted as it goes."""

    def __init__(self, inner: Environment, conversation: _Conversation) -> None:
        self._inner = inner
        self._conversation = conversation

    @property
    def tools(self) -> Sequence[ToolSchema]:
        return self._inner.tools

    @property
    def rewrites_history(self) -> bool:
        return self._inner.rewrites_history

    async def reset(self, task: Task, seed: int) -> Observation:
        observation = await self._inner.reset(task, seed)
        if isinstance(observation, Observation):
            self._conversation.messages += observation.messages
        self._conversation.tools = self._inner.tools
        return observation

    async def step(self, action: Action) -> StepResult:
        result = await self._inner.step(action)
        if isinstance(result, StepResult):
            if result.observation.rewrite:
                self._conversation.messages.clear()
            self._conversation.messages += result.observation.messages
        return result

    @property
    def world(self) -> Any:
        return self._inner.world

    async def final_reward(self) -> float:
        return await self._inner.final_reward()

    async def close(self) -> None:
        await self._inner.close()


class _Script:
    """Writes the model's side."""

    def __init__(self, task: Task, renderer: TurnRenderer, conversation: _Conversation) -> None:
        self._renderer = renderer
        self._conversation = conversation
        self._answer = Message("assistant", _NO_LABEL if task.label is None else str(task.label))
        self._calls_a_tool = True

    def next_turn(self) -> list[int]:
        """The ids of the next turn; the stop token alone where the template writes no such turn."""
        conversation = self._conversation
        message = self._message()
        self._calls_a_tool = False
        try:
            ids = self._renderer.turn(conversation.messages, message, conversation.tools)
        except RenderingFailure:
            message = Message("assistant")
            ids = [min(self._renderer.stop_token_ids)]
        conversation.messages.append(message)
        return ids

    def _message(self) -> Message:
        if not (self._calls_a_tool and self._conversation.tools):
            return self._answer
        return Message("assistant", tool_calls=(example_call(self._conversation.tools[0]),))
