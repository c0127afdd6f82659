"""`Episode`: the state of one episode while it is played, and its turns."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace

from bridges.history import History, images_of, make_history
from bridges.limits import EpisodeLimits
from bridges.stopping import cut_behind, ended_too_soon
from bridges.stream import EpisodeStream
from retrain.engine.base import Generation, InferenceEngine, SamplingParams
from retrain.environment.base import Environment
from retrain.errors import EngineFailure, EnvironmentFailure, RenderingFailure, boundary
from retrain.pausing import seconds_away
from retrain.rendering.base import Renderer
from retrain.rollout.executors.base import placed
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Message,
    Observation,
    StepResult,
    StopReason,
    Task,
    Timing,
    Turn,
    Witness,
)

_UNDECLARED = (
    "step: gave a whole new history, Observation(rewrite=True), which its class does not declare: "
    "set rewrites_history = True on it, so that a backend that takes one token stream an episode "
    "is refused before the run; or give only what is new, without rewrite"
)


@dataclass(slots=True)
class Episode:
    """One episode.

    Attributes:
        stream: What the engine has seen and written.
        timings: Where the time went.
        asking: Whether the engine writes a turn now, and the environment rests.
    """

    renderer: Renderer
    make_environment: Callable[[], Environment]
    limits: EpisodeLimits
    task: Task
    engine: InferenceEngine
    params: SamplingParams
    seed: EpisodeSeed
    session: str
    stream: EpisodeStream = field(default_factory=EpisodeStream)
    timings: list[Timing] = field(default_factory=list)
    asking: bool = False
    _history: History = field(init=False)
    _started: float = field(default_factory=time.perf_counter)
    _said: list[tuple[Message, ...]] = field(default_factory=list)
    _environment: Environment | None = None
    _lends_images: bool = False

    def __post_init__(self) -> None:
        self._history = make_history(self.renderer)

    def witness(self) -> Witness | None:
        """What reward functions may read; None where there never was a first prompt."""
        if self._environment is None:
            return None
        return Witness(self._environment, self._said[0], tuple(self._said[1:]))

    @property
    def said(self) -> tuple[tuple[Message, ...], ...]:
        """The messages of the first prompt, and of each reply that entered the stream."""
        return tuple(self._said)

    @property
    def environment(self) -> Environment | None:
        """The environment; None before the first prompt."""
        return self._environment

    async def play(self) -> StopReason:
        """Play it to its end.

        Raises:
            EpisodeFailure: It failed; what was played until then stays.
        """
        async with self._opened() as environment:
            await self._reset(environment)
            while True:
                stop_reason = await self._turn(environment)
                if stop_reason is not None:
                    await self._rate(environment, stop_reason)
                    return stop_reason

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Environment]:
        timeout = self.limits.step_timeout
        async with boundary(EnvironmentFailure, "environment constructor"):
            environment = self.make_environment()
        async with placed(environment):
            try:
                yield environment
            finally:
                with self._timed("environment"):
                    async with boundary(EnvironmentFailure, "close", timeout=timeout):
                        await environment.close()

    async def _reset(self, environment: Environment) -> None:
        limits = self.limits
        with self._timed("environment"):
            async with boundary(EnvironmentFailure, "reset", timeout=limits.step_timeout):
                observation = await environment.reset(self.task, self.seed.environment)
                _expect(observation, Observation, "reset")
        messages = self.task.with_images(observation.messages)
        self._lends_images = messages != observation.messages
        with self._timed("rendering"):
            async with boundary(RenderingFailure, "first prompt"):
                prompt = self._history.begin(messages, environment.tools)
        if limits.max_prompt_len is not None and len(prompt) > limits.max_prompt_len:
            raise RenderingFailure(
                f"first prompt: {len(prompt)} tokens exceed max_prompt_len {limits.max_prompt_len}"
            )
        self._environment = environment
        self._said.append(messages)
        self.stream.begin(prompt, images_of(messages))

    async def _turn(self, environment: Environment) -> StopReason | None:
        limits, stream = self.limits, self.stream
        room, bound = limits.room(len(stream.ids), stream.response_len)
        if room < 1:
            return bound
        generation = await self._generate(min(limits.turn_budget(room), self.params.max_tokens))
        generation = cut_behind(generation, limits.stop_strings, self.renderer.decode)
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
        if limits.max_turns is not None and len(stream.turns) >= limits.max_turns:
            return StopReason.MAX_TURNS
        return await self._reply(environment, result.observation)

    async def _generate(self, max_tokens: int) -> Generation:
        params = replace(self.params, max_tokens=max_tokens)
        turn_seed = self.seed.turn(len(self.stream.turns))
        attempts = self.limits.engine_retries + 1
        for attempt in range(1, attempts + 1):
            try:
                generation = await self._ask(params, turn_seed)
                if not ended_too_soon(generation, params):
                    return generation
                return await self._ask(replace(params, stop_strings=None), turn_seed)
            except EngineFailure:
                if attempt == attempts:
                    raise
                await self.engine.abort(self.session)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _ask(self, params: SamplingParams, turn_seed: int) -> Generation:
        timeout = self.limits.generate_timeout
        with self._timed("engine"):
            async with boundary(EngineFailure, "generate", timeout=timeout):
                self.asking = True
                try:
                    generation = await self.engine.generate(
                        self.stream.ids,
                        params,
                        session_id=self.session,
                        seed=turn_seed,
                        images=self.stream.images or None,
                    )
                finally:
                    self.asking = False
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
        action = self.renderer.parse(generation.output_ids)
        cut = generation.finish_reason is FinishReason.LENGTH
        return action if action.truncated == cut else replace(action, truncated=cut)

    def _record(self, generation: Generation, action: Action) -> None:
        self.stream.record(
            Turn(
                output_ids=tuple(generation.output_ids),
                output_logprobs=tuple(generation.logprobs),
                finish_reason=generation.finish_reason,
                action=action,
                weight_version=generation.weight_version,
                cached_tokens=int(generation.meta.get("cached_tokens", 0)),
                weight_spans=generation.meta.get("weight_spans", ()),
            )
        )

    async def _step(self, environment: Environment, action: Action) -> StepResult:
        with self._timed("environment"):
            async with boundary(EnvironmentFailure, "step", timeout=self.limits.step_timeout):
                result = await environment.step(action)
                _expect(result, StepResult, "step")
        if result.observation.rewrite and not environment.rewrites_history:
            raise EnvironmentFailure(_UNDECLARED)
        self.stream.rate(result)
        return result

    async def _reply(self, environment: Environment, observation: Observation) -> StopReason | None:
        stream = self.stream
        if observation.rewrite and self._lends_images:
            shown = self.task.with_first_images(observation.messages)
            observation = replace(observation, messages=shown)
        with self._timed("rendering"):
            async with boundary(RenderingFailure, "reply"):
                reply = self._history.reply(
                    stream.turns[-1], observation, stream.ids, environment.tools
                )
        added = len(reply.ids)
        if reply.rewritten:
            room, bound = self.limits.room(added, stream.response_len)
        else:
            room, bound = self.limits.room(len(stream.ids) + added, stream.response_len + added)
        if room < 1:
            return bound
        if reply.rewritten:
            stream.begin(reply.ids, reply.images)
        else:
            stream.append(reply.ids, reply.images)
        self._said.append(reply.messages)
        return None

    async def _rate(self, environment: Environment, stop_reason: StopReason) -> None:
        """Add what the whole episode earns to its last turn."""
        turns = self.stream.turns
        if stop_reason is StopReason.ABORTED or not turns:
            return
        with self._timed("environment"):
            async with boundary(
                EnvironmentFailure, "final_reward", timeout=self.limits.step_timeout
            ):
                earned = await environment.final_reward()
        turns[-1] = replace(turns[-1], reward=turns[-1].reward + earned)

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        turn, began = len(self.stream.turns) - (kind != "engine"), time.perf_counter()
        away = seconds_away()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began - (seconds_away() - away)
            self.timings.append(Timing(kind, turn, began - self._started, seconds))


def _expect(value: object, kind: type, call: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{call} must return {kind.__name__}, not {type(value).__name__}")
