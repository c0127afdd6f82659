"""The composition root: the only place that finds bridges and backends, by name, when called.

Everything is imported inside the functions, so importing this module loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from retrain.errors import Boundary, ConfigError, MissingDependency
from retrain.model_files import (
    generation_eos,
    known_positions,
    load_tokenizer,
    vocabulary_size,
)

if TYPE_CHECKING:
    from backends.base import Backend, Plan, Problem
    from bridges import (
        DataFormatBridge,
        EnvironmentBridge,
        EpisodeLimits,
        FailurePolicy,
        RewardBridge,
        RolloutBridge,
    )
    from retrain.config import PromptSourceConfig, RunConfig
    from retrain.engine.base import InferenceEngine, SamplingParams
    from retrain.environment.registry import EnvironmentFactory

    class ClosableEngine(InferenceEngine, Protocol):
        """An engine that holds something until it is closed."""

        def close(self) -> None:
            """Free what the engine holds."""
            ...

    from retrain.parity import LossReading, Recorded
    from retrain.rendering import DeltaRenderer
    from retrain.report.start import Start
    from retrain.rollout.buffer import DataBuffer
    from retrain.rollout.executors.base import Executor
    from retrain.rollout.request import GroupRequest
    from retrain.sample import Sample
    from retrain.types import Task, Trajectory


@dataclass(frozen=True, slots=True)
class Composition:
    """Everything between a configuration and a training framework.

    Attributes:
        config: The configuration it was made from.
        renderer: Messages to tokens and back.
        environment: Plays one episode.
        rewards: Scores episodes.
        data_format: Turns episodes into samples.
        executor: Where the environments run.
    """

    config: RunConfig
    renderer: DeltaRenderer
    environment: EnvironmentBridge
    rewards: RewardBridge
    data_format: DataFormatBridge
    executor: Executor

    def close(self) -> None:
        """End the workers of the environments; from any thread, and more than once."""
        self.executor.close()

    def rollouts(self, engine: InferenceEngine, *, evaluation: bool = False) -> RolloutBridge:
        """Make the bridge that collects groups, for training or for evaluation."""
        from bridges import RolloutBridge, RolloutSettings

        config = self.config
        n_samples = config.algorithm.hyperparameters.n_samples_per_prompt
        if evaluation and config.evaluation is not None:
            n_samples = config.evaluation.n_samples_per_prompt
        settings = RolloutSettings(
            params=sampling_params(config, evaluation=evaluation),
            n_samples=n_samples,
            run_seed=config.seed,
            split="eval" if evaluation else "train",
            concurrency=config.rollout.concurrency,
            episode_timeout=config.rollout.episode_timeout,
            policy=failure_policy(config),
            evaluation=evaluation,
        )
        return RolloutBridge(self.environment, self.rewards, engine, settings)


@dataclass(frozen=True, slots=True)
class Preview:
    """One episode that no model took part in, for the dry run.

    Attributes:
        samples: Its samples.
        recorded: Whether the turns are those of a demonstration; else they are scripted.
        trajectory: The episode; None for a demonstration.
    """

    samples: tuple[Sample, ...]
    recorded: bool
    trajectory: Trajectory | None = None


def load_backend(name: str) -> Backend:
    """Find a backend by name, import path or entry point.

    Raises:
        ConfigError: There is none of that name.
        MissingDependency: Its framework is not installed.
    """
    from backends.registry import BACKENDS

    return BACKENDS.get(name)()


def backend_names() -> tuple[str, ...]:
    """Every backend that is known, installed or not."""
    from backends.registry import BACKENDS

    return BACKENDS.names()


def read_loss(name: str, recorded: Recorded) -> LossReading:
    """What a backend gives to its loss when a tape is played through it.

    Raises:
        MissingDependency: It is not installed, or cannot tell.
        ConfigError: It cannot honour the configuration.
    """
    from backends.base import ReadsLoss

    backend = load_backend(name)
    if not isinstance(backend, ReadsLoss):
        raise MissingDependency(f"backend {name!r} has no read_loss, and cannot be compared")
    return backend.read_loss(recorded)


def framework_defaults(backend: Backend, plan: Plan) -> Mapping[str, Any]:
    """What a framework itself would take for a plan's arguments; nothing where nobody can tell."""
    from backends.base import KnowsDefaults

    return backend.defaults(plan) if isinstance(backend, KnowsDefaults) else {}


def find_start(run: Path) -> Start:
    """The newest checkpoint of a run, for another run to go on from.

    Raises:
        RunFolderError: There is none.
        ConfigError: It cannot be gone on from.
    """
    from backends.starts import find_start as find

    return find(run)


def check_backends() -> dict[str, list[Problem]]:
    """What stands in each backend's way on this machine, warnings included, by backend."""
    from backends.registry import BACKENDS

    return {name: _check_backend(name) for name in BACKENDS.names()}


def _check_backend(name: str) -> list[Problem]:
    try:
        return load_backend(name).check()
    except (ConfigError, MissingDependency) as error:
        return [make_problem("", str(error))]


def make_problem(key: str, message: str, *, stops: bool = True) -> Problem:
    """Make a problem, as a backend's plan lists them.

    Args:
        key: The configuration key it is about, or "" where the message names it.
        message: What is wrong and what to do.
        stops: Whether it stops the run; else it is a warning.
    """
    from backends.base import Problem, Severity

    return Problem(key, message, Severity.ERROR if stops else Severity.WARNING)


def compose(config: RunConfig, *, model_dir: str | Path | None = None) -> Composition:
    """Make the four bridges that a configuration describes.

    Args:
        config: One stage's configuration.
        model_dir: Where to load tokenizer and template from; None is `model.name_or_path`.

    Raises:
        ConfigError: The environment, a reward or the template cannot be used; the key is named.
    """
    renderer = make_renderer(config, model_dir)
    return compose_with(config, renderer, positions=known_positions(config, model_dir))


def compose_with(
    config: RunConfig,
    renderer: DeltaRenderer,
    *,
    make_environment: EnvironmentFactory | None = None,
    positions: int | None = None,
) -> Composition:
    """Make the four bridges around a renderer that is there already.

    Args:
        config: One stage's configuration; of `model:` nothing is read.
        renderer: Messages to tokens and back.
        make_environment: Makes the environments in place of the configured ones, in this process.
        positions: How many positions the model knows; bounds the context.

    Raises:
        ConfigError: The environment, a reward or a filter cannot be used; the key is named.
    """
    from bridges import DataFormatBridge, EnvironmentBridge, RewardBridge
    from retrain.environment import make_environment_factory
    from retrain.reward import build_reward_calculator
    from retrain.rollout.executors.base import LocalExecutor
    from retrain.rollout.executors.making import make_executor
    from retrain.rollout.filter_building import over_sampling

    over_sampling(config.rollout, config.algorithm.hyperparameters.rollout_batch_size)
    section = config.environment
    factory = make_environment or make_environment_factory(
        section.type, section.env_specific_config
    )
    calculator = build_reward_calculator(
        config.reward_setup,
        timeout=config.rollout.reward_timeout,
        environment_rewards=factory.rewards,
        decode=renderer.text,
    )
    if make_environment is None:
        executor = make_executor(config, factory, worlds=calculator.reads_environments)
    else:
        executor = LocalExecutor(make_environment)
    advantage = "grpo" if config.algorithm.name == "sft" else config.algorithm.name
    return Composition(
        config=config,
        renderer=renderer,
        environment=EnvironmentBridge(renderer, executor.make, episode_limits(config, positions)),
        rewards=RewardBridge(calculator, advantage),
        data_format=DataFormatBridge(renderer),
        executor=executor,
    )


def load_engine(
    spec: str | Mapping[str, Any],
    composition: Composition,
    *,
    model_dir: str | Path | None = None,
) -> ClosableEngine:
    """Make the engine that plays episodes without training.

    Args:
        spec: As `rollout.engine`: a name, or a name and its options.
        composition: Gives the model, the bounds of an episode and the concurrency.
        model_dir: Where to load the weights from; None is `model.name_or_path`.

    Raises:
        ConfigError: There is no such engine, or it cannot be made.
        MissingDependency: What it needs is not installed.
    """
    from retrain.engine.factory import EngineContext, make_engine

    config, tokenizer = composition.config, load_tokenizer(composition.config, model_dir)
    model = config.model
    if model_dir is not None:
        changed: Mapping[str, object] = {"name_or_path": str(model_dir), "revision": None}
        model = model.model_copy(update=changed)
    context = EngineContext(
        model=model,
        max_context_len=composition.environment.limits.max_context_len,
        concurrency=config.rollout.concurrency,
        vocab_size=vocabulary_size(config, model_dir),
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
    )
    return cast("ClosableEngine", make_engine(spec, context, key="rollout.engine"))


async def preview(composition: Composition, task: Task) -> Preview:
    """Play one episode without a model: a demonstration's turns, or scripted ones.

    Args:
        composition: The bridges; the environment, the template and the rewards are real.
        task: What the episode is about.

    Raises:
        DataError: An sft task that is no demonstration.
    """
    from bridges import EnvironmentBridge
    from bridges.demonstrations import demonstration_samples
    from bridges.preview import preview_episode

    renderer, limits = composition.renderer, composition.environment.limits
    here = composition.executor.here
    if composition.config.algorithm.name == "sft":
        tools = await EnvironmentBridge(renderer, here, limits).tools()
        samples = await demonstration_samples([task], renderer, limits, tools)
        return Preview(tuple(samples), recorded=True)
    episode = await preview_episode(task, renderer, here, limits)
    (scored,) = await composition.rewards.score([episode])
    return Preview(tuple(composition.data_format.to_samples(scored)), False, scored)


def make_renderer(config: RunConfig, model_dir: str | Path | None = None) -> DeltaRenderer:
    """Load the tokenizer and check its template.

    Raises:
        ConfigError: There is no tokenizer or template, or the template cannot be exact.
    """
    from retrain.rendering import load_renderer

    tokenizer = load_tokenizer(config, model_dir)
    return load_renderer(
        tokenizer,
        tool_format=config.rendering.tool_format,
        date=date.fromisoformat(config.rendering.date),
        stop_token_ids=config.rendering.stop_token_ids,
        generation_config_eos=generation_eos(config, model_dir),
        history=config.rendering.history,
    )


def make_tasks(config: RunConfig, source: PromptSourceConfig | None = None) -> tuple[Task, ...]:
    """Read the tasks of `prompt_source:`, or of another source.

    Args:
        config: One stage's configuration.
        source: Another source: that of the evaluation, whose tasks an environment makes with
            another seed.

    Raises:
        ConfigError: The section is wrong.
        DataError: The rows are wrong.
        MissingDependency: The package that reads them is not installed.
    """
    from retrain.rollout.sources import make_tasks as read_tasks
    from retrain.seeds import derive_seed

    section = source or config.prompt_source
    split = "train" if source is None else "eval"
    return read_tasks(
        section.type,
        section.source_config,
        config.base_dir,
        environment=config.environment.type,
        seed=derive_seed("tasks", config.seed, split),
    )


def check_inputs(config: RunConfig) -> None:
    """Make the bridges and read all tasks, so that a mistake shows before a run folder is made.

    Raises:
        ConfigError: The environment, a reward or the template cannot be used.
        DataError: A prompt source is wrong.
    """
    from bridges.demonstrations import conversation

    compose(config)
    tasks = make_tasks(config)
    if config.algorithm.name == "sft":
        for task in tasks:
            conversation(task)
    if config.evaluation is not None:
        make_tasks(config, config.evaluation.prompt_source)


def make_buffer(
    config: RunConfig, tasks: Sequence[Task], *, rank: int = 0, ranks: int = 1
) -> DataBuffer:
    """Make the data buffer over the training tasks.

    Args:
        config: The run.
        tasks: The tasks.
        rank: Which of several processes that share the draws, from 0.
        ranks: How many there are.

    Raises:
        ConfigError: There is no such `rollout.buffer_filter`.
    """
    from retrain.rollout.buffer import DataBuffer
    from retrain.rollout.partial import find_buffer_filter

    chosen = find_buffer_filter(config.rollout.buffer_filter)
    return DataBuffer(tasks, seed=config.seed, rank=rank, ranks=ranks, buffer_filter=chosen)


def agent_rollouts(
    environment_cls: Callable[..., Any], engine: InferenceEngine, tokenizer: Any, **bounds: Any
) -> Callable[[Sequence[tuple[GroupRequest, int]]], Awaitable[list[Sample]]]:
    """What plays episodes without a configuration, and gives their samples.

    Args:
        environment_cls: Makes the environment.
        engine: Writes the model's turns.
        tokenizer: The model's tokenizer, with its chat template.
        **bounds: As `bridges.agents.make_player` takes them.

    Raises:
        ConfigError: The template cannot be exact, or it is no environment.
    """
    from bridges.agents import make_player

    return make_player(environment_cls, engine, tokenizer, **bounds)


def episodes_of(
    samples: Sequence[Sample], request: GroupRequest, count: int
) -> tuple[Trajectory, ...]:
    """The episodes of a group's samples, for filters and advantages.

    Args:
        samples: In order; those of one episode share `rollout_id`.
        request: The group.
        count: How many episodes it must have.

    Raises:
        ConfigError: It has another number.
    """
    from bridges.agents import episodes_of as rebuild

    return rebuild(samples, request, count)


def episode_limits(config: RunConfig, positions: int | None = None) -> EpisodeLimits:
    """The bounds of an episode.

    Args:
        config: One stage's configuration.
        positions: How many positions the model knows; bounds the context too.
    """
    from bridges import EpisodeLimits

    hyper, rollout = config.algorithm.hyperparameters, config.rollout
    contexts = [bound for bound in (hyper.max_context_len, positions) if bound is not None]
    return EpisodeLimits(
        max_response_len=hyper.max_response_len,
        max_tokens_per_turn=hyper.max_tokens_per_turn,
        max_context_len=min(contexts) if contexts else None,
        max_prompt_len=hyper.max_prompt_len,
        max_turns=rollout.max_turns,
        step_timeout=rollout.step_timeout,
        generate_timeout=rollout.generate_timeout,
        engine_retries=rollout.engine_retries,
        max_restarts=rollout.executor.max_restarts,
    )


def sampling_params(config: RunConfig, *, evaluation: bool = False) -> SamplingParams:
    """How the engine samples."""
    from retrain.engine.base import SamplingParams

    hyper = config.algorithm.hyperparameters
    return SamplingParams(
        max_tokens=hyper.max_response_len,
        temperature=config.eval_temperature if evaluation else hyper.temperature,
        top_p=hyper.top_p,
        top_k=hyper.top_k,
    )


def failure_policy(config: RunConfig) -> FailurePolicy:
    """What happens to failed episodes."""
    from bridges import FailureAction, FailurePolicy

    rollout = config.rollout
    actions: Mapping[str, str] = rollout.failure.model_dump()
    return FailurePolicy(
        actions={Boundary(name): FailureAction(action) for name, action in actions.items()},
        retries=rollout.episode_retries,
        max_failure_rate=rollout.max_failure_rate,
    )
