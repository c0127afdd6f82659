"""The parts of a run that belong to the core: renderer, tasks, data buffer, sampling, engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from retrain.model_files import generation_eos, load_tokenizer, vocabulary_size, why_text_only

if TYPE_CHECKING:
    from retrain.compose.composition import Composition
    from retrain.config import PromptSourceConfig, RunConfig
    from retrain.engine.base import InferenceEngine, SamplingParams
    from retrain.rendering import DeltaRenderer
    from retrain.rollout.buffer import DataBuffer
    from retrain.types import Task
    from retrain.vision import ImageLimits, Vision

    class ClosableEngine(InferenceEngine, Protocol):
        """An engine that holds something until it is closed."""

        def close(self) -> None:
            """Free what the engine holds."""
            ...


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
        vision=make_vision(config, model_dir),
    )


def make_vision(config: RunConfig, model_dir: str | Path | None = None) -> Vision:
    """Load the model's image processor, or say why there is none."""
    from retrain.vision import NoVision

    reason = why_text_only(config, model_dir)
    if reason is not None:
        return NoVision(reason)
    from retrain.engine.transformers_vision import load_vision

    folder = None if model_dir is None else str(model_dir)
    return load_vision(config.model, image_limits(config), folder)


def image_limits(config: RunConfig) -> ImageLimits:
    """What images may be, as `rendering.images` has it."""
    from retrain.vision import ImageLimits

    return ImageLimits(**config.rendering.images.model_dump())


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
    from retrain.rollout.system_prompt import with_system_prompt
    from retrain.seeds import derive_seed

    section = source or config.prompt_source
    split = "train" if source is None else "eval"
    tasks = read_tasks(
        section.type,
        section.source_config,
        config.base_dir,
        environment=config.environment.type,
        seed=derive_seed("tasks", config.seed, split),
    )
    _check_images(tasks, config)
    return with_system_prompt(tasks, section.system_prompt or config.prompt_source.system_prompt)


def _check_images(tasks: Sequence[Task], config: RunConfig) -> None:
    """See from the heads of their files that the tasks' images can be used.

    Raises:
        DataError: Naming the task and the image.
    """
    from retrain.errors import DataError
    from retrain.vision.reading import check_image

    limits, seen = image_limits(config), set[str]()
    for task in tasks:
        for image in (image for message in task.messages for image in message.images):
            if image.source in seen:
                continue
            seen.add(image.source)
            try:
                check_image(image.source, limits)
            except DataError as error:
                raise DataError(f"prompt_source: task {task.id!r}: {error}") from error


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
        vision=composition.image_processor,
    )
    return cast("ClosableEngine", make_engine(spec, context, key="rollout.engine"))
