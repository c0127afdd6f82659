"""`EnvironmentBridge.run`: the only episode loop there is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from bridges.limits import EpisodeLimits
from retrain.engine.base import Generation, InferenceEngine, SamplingParams
from retrain.environment.base import Environment, ToolSchema
from retrain.errors import (
    EngineFailure,
    EnvironmentFailure,
    EpisodeError,
    EpisodeFailure,
    RenderingFailure,
    boundary,
)
from retrain.rendering.base import Renderer
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Message,
    Observation,
    Segment,
    StepResult,
    StopReason,
    Task,
    Timing,
    Trajectory,
    Turn,
    Witness,
)

EnvironmentFactory = Callable[[], Environment]

_SESSIONS = count()
_STATUS = {
    StopReason.TERMINATED: Status.COMPLETED,
    StopReason.ABORTED: Status.ABORTED,
    StopReason.FAILED: Status.FAILED,
}


class EnvironmentBridge:
    """Plays episodes: an environment and an engine, turn by turn, over one growing token stream."""

    def __init__(
        self,
        renderer: Renderer,
        make_environment: EnvironmentFactory,
        limits: EpisodeLimits,
    ) -> None:
        """Make a bridge.

        Args:
            renderer: Turns messages into tokens and sampled tokens into actions.
            make_environment: Makes one environment; called once an episode.
            limits: Bounds of every episode.
        """
        self.renderer = renderer
        self.make_environment = make_environment
        self.limits = limits

    async def tools(self) -> tuple[ToolSchema, ...]:
        """The tools that a fresh environment offers, for prompts that no episode is played from.

        Raises:
            EnvironmentFailure: The environment cannot be made, or raised.
        """
        async with boundary(EnvironmentFailure, "environment constructor"):
            environment = self.make_environment()
        async with boundary(EnvironmentFailure, "tools"):
            tools = tuple(environment.tools)
        async with boundary(EnvironmentFailure, "close", timeout=self.limits.step_timeout):
            await environment.close()
        return tools

    async def run(
        self,
        task: Task,
        *,
        engine: InferenceEngine,
        params: SamplingParams,
        seed: EpisodeSeed,
        evaluation: bool = False,
    ) -> Trajectory:
        """Play one episode.

        Args:
            task: What the episode is about.
            engine: Writes the model's turns.
            params: How to sample; `max_tokens` is the bound of one turn and is lowered to what
                the episode's limits leave, and the renderer's stop tokens are added.
            seed: Names the episode and seeds all of it.
            evaluation: Marks the session, so that engines and logs can tell it apart.

        Returns:
            The trajectory, not yet scored. A failure inside the episode is data on it
            (`status=failed`, `error`); only cancellation, a mistake in the configuration and a
            missing package are raised.
        """
        session = f"{'eval' if evaluation else 'train'}-{next(_SESSIONS)}-{task.id}"
        stops = params.stop_token_ids | self.renderer.stop_token_ids
        episode = _Episode(self, task, engine, replace(params, stop_token_ids=stops), seed, session)
        try:
            stop_reason = await episode.play()
            error = None
        except EpisodeFailure as failure:
            running = asyncio.current_task()
            if running is not None and running.cancelling():
                raise asyncio.CancelledError from failure
            stop_reason, error = StopReason.FAILED, EpisodeError.of(failure)
        finally:
            await engine.release(session)
        return Trajectory(
            task=task,
            seed=seed,
            segments=episode.segments(),
            status=_STATUS.get(stop_reason, Status.TRUNCATED),
            stop_reason=stop_reason,
            error=error,
            timings=tuple(episode.timings),
            witness=episode.witness(),
        )


@dataclass(slots=True)
class _Episode:
    """The state of one episode while it is played."""

    bridge: EnvironmentBridge
    task: Task
    engine: InferenceEngine
    params: SamplingParams
    seed: EpisodeSeed
    session: str
    prompt_ids: list[int] = field(default_factory=list)
    stream: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    seen: list[tuple[Message, ...]] = field(default_factory=list)
    environment: Environment | None = None

    def segments(self) -> tuple[Segment, ...]:
        if not self.prompt_ids:
            return ()
        turns = [*self.turns[:-1], *(replace(turn, env_ids=()) for turn in self.turns[-1:])]
        return (Segment(tuple(self.prompt_ids), tuple(turns)),)

    def witness(self) -> Witness | None:
        if self.environment is None:
            return None
        return Witness(self.environment, self.seen[0], tuple(self.seen[1:]))

    async def play(self) -> StopReason:
        async with self._environment() as environment:
            await self._reset(environment)
            while True:
                stop_reason = await self._turn(environment)
                if stop_reason is not None:
                    await self._rate(environment, stop_reason)
                    return stop_reason

    @asynccontextmanager
    async def _environment(self) -> AsyncIterator[Environment]:
        timeout = self.bridge.limits.step_timeout
        async with boundary(EnvironmentFailure, "environment constructor"):
            environment = self.bridge.make_environment()
        try:
            yield environment
        finally:
            with self._timed("environment"):
                async with boundary(EnvironmentFailure, "close", timeout=timeout):
                    await environment.close()

    async def _reset(self, environment: Environment) -> None:
        limits = self.bridge.limits
        with self._timed("environment"):
            async with boundary(EnvironmentFailure, "reset", timeout=limits.step_timeout):
                observation = await environment.reset(self.task, self.seed.environment)
                _expect(observation, Observation, "reset")
        with self._timed("rendering"):
            async with boundary(RenderingFailure, "first prompt"):
                prompt = self.bridge.renderer.first(observation.messages, environment.tools)
        if limits.max_prompt_len is not None and len(prompt) > limits.max_prompt_len:
            raise RenderingFailure(
                f"first prompt: {len(prompt)} tokens exceed max_prompt_len {limits.max_prompt_len}"
            )
        self.environment = environment
        self.seen.append(observation.messages)
        self.prompt_ids = prompt
        self.stream = list(prompt)

    async def _turn(self, environment: Environment) -> StopReason | None:
        limits = self.bridge.limits
        room, bound = limits.room(len(self.prompt_ids), len(self.stream) - len(self.prompt_ids))
        if room < 1:
            return bound
        generation = await self._generate(min(limits.turn_budget(room), self.params.max_tokens))
        if generation.finish_reason is FinishReason.ABORT:
            if generation.output_ids:
                self._record(generation, self._read(generation))
            return StopReason.ABORTED
        action = self._read(generation)
        self._record(generation, action)
        if generation.finish_reason is FinishReason.LENGTH and len(generation.output_ids) >= room:
            return bound
        result = await self._step(environment, action)
        if result.terminated:
            return StopReason.TERMINATED
        if result.truncated:
            return StopReason.ENVIRONMENT_TRUNCATED
        if limits.max_turns is not None and len(self.turns) >= limits.max_turns:
            return StopReason.MAX_TURNS
        return await self._append_reply(environment, action, result.observation)

    async def _generate(self, max_tokens: int) -> Generation:
        params = replace(self.params, max_tokens=max_tokens)
        turn_seed = self.seed.turn(len(self.turns))
        attempts = self.bridge.limits.engine_retries + 1
        for attempt in range(1, attempts + 1):
            try:
                return await self._ask(params, turn_seed)
            except EngineFailure:
                if attempt == attempts:
                    raise
                await self.engine.abort(self.session)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _ask(self, params: SamplingParams, turn_seed: int) -> Generation:
        timeout = self.bridge.limits.generate_timeout
        with self._timed("engine"):
            async with boundary(EngineFailure, "generate", timeout=timeout):
                generation = await self.engine.generate(
                    self.stream,
                    params,
                    session_id=self.session,
                    seed=turn_seed,
                    images=self.task.images or None,
                )
        written = len(generation.output_ids)
        if written != len(generation.logprobs) or written > params.max_tokens:
            raise EngineFailure(
                f"generate: {written} tokens with {len(generation.logprobs)} logprobs, asked for "
                f"at most {params.max_tokens}"
            )
        if not written and generation.finish_reason is not FinishReason.ABORT:
            raise EngineFailure("generate: no token; the engine must return the stop token too")
        return generation

    def _read(self, generation: Generation) -> Action:
        action = self.bridge.renderer.parse(generation.output_ids)
        cut = generation.finish_reason is FinishReason.LENGTH
        return action if action.truncated == cut else replace(action, truncated=cut)

    def _record(self, generation: Generation, action: Action) -> None:
        self.stream.extend(generation.output_ids)
        self.turns.append(
            Turn(
                output_ids=tuple(generation.output_ids),
                output_logprobs=tuple(generation.logprobs),
                finish_reason=generation.finish_reason,
                action=action,
                weight_version=generation.weight_version,
                cached_tokens=int(generation.meta.get("cached_tokens", 0)),
            )
        )

    async def _step(self, environment: Environment, action: Action) -> StepResult:
        timeout = self.bridge.limits.step_timeout
        with self._timed("environment"):
            async with boundary(EnvironmentFailure, "step", timeout=timeout):
                result = await environment.step(action)
                _expect(result, StepResult, "step")
        self.turns[-1] = replace(self.turns[-1], reward=result.reward, info=result.info)
        return result

    async def _append_reply(
        self, environment: Environment, action: Action, observation: Observation
    ) -> StopReason | None:
        with self._timed("rendering"):
            async with boundary(RenderingFailure, "reply"):
                reply = self.bridge.renderer.delta(
                    action, observation.messages, self.stream[-1], environment.tools
                )
        response_len = len(self.stream) - len(self.prompt_ids) + len(reply)
        room, bound = self.bridge.limits.room(len(self.prompt_ids), response_len)
        if room < 1:
            return bound
        self.turns[-1] = replace(self.turns[-1], env_ids=tuple(reply))
        self.seen.append(observation.messages)
        self.stream.extend(reply)
        return None

    async def _rate(self, environment: Environment, stop_reason: StopReason) -> None:
        """Add what the whole episode earns to its last turn."""
        if stop_reason is StopReason.ABORTED or not self.turns:
            return
        with self._timed("environment"):
            timeout = self.bridge.limits.step_timeout
            async with boundary(EnvironmentFailure, "final_reward", timeout=timeout):
                earned = await environment.final_reward()
        self.turns[-1] = replace(self.turns[-1], reward=self.turns[-1].reward + earned)

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        turn, began = len(self.turns) - (kind != "engine"), time.perf_counter()
        try:
            yield
        finally:
            ended = time.perf_counter()
            self.timings.append(Timing(kind, turn, began - self.started, ended - began))


def _expect(value: object, kind: type, call: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{call} must return {kind.__name__}, not {type(value).__name__}")
