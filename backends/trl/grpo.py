"""Reinforcement learning through `GRPOTrainer`, in one process or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig

from backends.local.adapters import keep_in_float32, lora_config
from backends.local.logprob_rows import trainer_rows
from backends.trl.ahead import AheadBatches, WeightsWhileCollecting
from backends.trl.batching import BatchFiller
from backends.trl.callback import IterationCallback
from backends.trl.checkpoints import run_shape
from backends.trl.collecting import Collector
from backends.trl.evaluation import EvaluationBefore, HeldOutEvaluation
from backends.trl.feed import RolloutFeed
from backends.trl.loggers import publish
from backends.trl.session import Session
from backends.trl.trainer import BridgedGRPOTrainer
from backends.trl.vllm_engines import make_vllm
from backends.trl.vllm_planning import uses_vllm
from backends.trl.weights import SharedWeights, WeightKeeper
from retrain.compose import make_buffer, make_tasks
from retrain.engine.base import InferenceEngine
from retrain.engine.transformers_engine import TransformersEngine
from retrain.engine.transformers_loading import fit_engine
from retrain.report.start import read_start
from retrain.report.trainer_logprobs import write_trainer_logprobs
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filter_building import over_sampling
from retrain.runtime import EventLoopThread
from retrain.sample import Sample
from retrain.types import Group, Task

if TYPE_CHECKING:
    from retrain.compose import ClosableEngine


def train_grpo(session: Session, tasks: Sequence[Task]) -> Any:
    """Train to the end, or until the user stops it.

    Args:
        session: The opened run.
        tasks: What to train on.

    Returns:
        The trainer.
    """
    with ExitStack() as stack:
        loop = stack.enter_context(EventLoopThread())
        engine, weights = _generation(session, loop)
        stack.callback(engine.close)
        launch = session.launch
        buffer = make_buffer(session.config, tasks, rank=launch.rank, ranks=launch.processes)
        batches = _batches(session, engine, buffer, loop)
        batches.rewards = session.composition.rewards
        stack.callback(batches.close)
        if isinstance(batches, AheadBatches):
            weights = WeightsWhileCollecting(weights, batches)
        evaluation = _evaluation(session, engine, weights, loop)
        start = read_start(session.config.output_dir)
        if session.checkpoint is not None:
            batches.load(session.checkpoint.state, buffer, {task.id: task for task in tasks})
        elif start is not None:
            buffer.load_state_dict(start.buffer)
        trainer = _trainer(session, weights, batches, buffer, evaluation)
        trainer.train(resume_from_checkpoint=session.resume_path)
        return trainer


def make_engine(session: Session) -> TransformersEngine:
    """Make the in-process engine over the model that is trained."""
    return fit_engine(
        session.model,
        longest=session.composition.environment.limits.max_context_len,
        most=session.config.rollout.concurrency,
        autocast=torch.bfloat16 if session.plan.arguments["bf16"] else None,
        vision=session.composition.image_processor,
    )


def _generation(session: Session, loop: EventLoopThread) -> tuple[ClosableEngine, WeightKeeper]:
    """Make what writes the turns, and what keeps its weights those of the trainer."""
    if uses_vllm(session.plan.arguments):
        return make_vllm(session, loop)
    engine = make_engine(session)
    return engine, SharedWeights(engine)


def _evaluation(
    session: Session, engine: InferenceEngine, weights: WeightKeeper, loop: EventLoopThread
) -> HeldOutEvaluation:
    config, composition = session.config, session.composition
    section = config.evaluation
    tasks = () if section is None else make_tasks(config, section.prompt_source)
    return HeldOutEvaluation(
        tasks,
        Collector(composition.rollouts(engine, evaluation=True), loop, session.launch),
        composition.data_format,
        session.recorder,
        weights=weights.current,
        interval=config.eval_interval,
        last=session.plan.sizes["iterations"],
    )


def _batches(
    session: Session, engine: InferenceEngine, buffer: DataBuffer, loop: EventLoopThread
) -> BatchFiller:
    hyper, launch = session.config.algorithm.hyperparameters, session.launch
    how = over_sampling(session.config.rollout, hyper.rollout_batch_size // launch.processes)
    manager = session.composition.rollouts(engine).managed(buffer, how)
    given = manager, how, hyper.n_samples_per_prompt, loop, launch
    if not session.config.asynchronous:
        return BatchFiller(*given)
    sizes = session.plan.sizes
    steps, end = sizes["optimizer_steps_per_iteration"], sizes["optimizer_steps"]
    return AheadBatches(*given, steps=steps, end=end)


def _trainer(
    session: Session,
    weights: WeightKeeper,
    batches: BatchFiller,
    buffer: DataBuffer,
    evaluation: HeldOutEvaluation,
) -> BridgedGRPOTrainer:
    hyper = session.config.algorithm.hyperparameters
    steps = session.plan.sizes["optimizer_steps_per_iteration"]

    def on_groups(
        step: int,
        groups: Sequence[Group],
        rows: Sequence[Sample],
        seconds: float,
        extra: Mapping[str, float],
    ) -> None:
        asked = session.composition.rewards.calculator.measured()
        session.recorder.collected(step // steps + 1, groups, rows, seconds, {**extra, **asked})

    def on_logprobs(rows: Sequence[Sample], logps_BT: torch.Tensor) -> None:
        iteration = trainer.state.global_step // steps + 1
        found = trainer_rows(rows, logps_BT)
        write_trainer_logprobs(session.config.output_dir.expanduser(), iteration, found)

    feed = RolloutFeed(
        batches,
        session.composition.data_format,
        session.launch,
        weights=weights.current,
        on_groups=on_groups,
    )
    trainer = BridgedGRPOTrainer(
        feed=feed,
        weights=weights,
        data_state=lambda: {**batches.state(buffer), "shape": run_shape(session.plan)},
        truncated_importance=hyper.importance_correction == "tis",
        vision=session.composition.image_processor,
        on_logprobs=on_logprobs,
        model=session.model,
        processing_class=session.tokenizer,
        args=GRPOConfig(**session.plan.arguments),
        peft_config=lora_config(session.config.model.peft),
        train_dataset=Dataset.from_dict({"prompt": ["retrain"] * hyper.rollout_batch_size}),
        callbacks=[
            IterationCallback(
                session.recorder,
                session.interrupt,
                session.launch,
                steps_per_iteration=steps,
                evaluate=evaluation.after,
                publish=lambda: publish(trainer, session.recorder.latest),
                waited=lambda: feed.seconds,
            ),
            EvaluationBefore(evaluation.run),
        ],
    )
    keep_in_float32(trainer.model, session.config.model.peft)
    trainer.remove_callback(PrinterCallback)
    return trainer
