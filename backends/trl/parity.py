"""What enters TRL's loss when a tape is played: a real `GRPOTrainer`, stepped and read.

Suffixes: B rows, T padded completion length.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from tempfile import TemporaryDirectory
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig

from backends.base import Plan
from backends.local.adapters import keep_in_float32, lora_config
from backends.trl.batching import BatchFiller
from backends.trl.feed import RolloutFeed
from backends.trl.parity_trainer import LossReader
from backends.trl.planning import make_plan
from bridges import RolloutBridge
from retrain.compose import compose, load_engine
from retrain.config import RunConfig
from retrain.engine.transformers_loading import load_model
from retrain.launch import Launch
from retrain.model_files import load_tokenizer
from retrain.parity import LossReading, Recorded, RecordedOrder
from retrain.rollout.filling import OverSampling
from retrain.runtime import EventLoopThread

_AGGREGATIONS = {"dapo": "token", "grpo": "sequence", "dr_grpo": "constant"}
"""TRL's `loss_type`, as `grpo_trainer.py` `_compute_loss` aggregates."""

_MICRO_BATCH = "per_device_train_batch_size"


class _NoWeights:
    """A keeper where the tape answers: there is no engine that weights could be brought to."""

    def attach(self, trainer: Any) -> None:
        """Nothing is kept."""

    def sync(self) -> None:
        """Nothing is sent."""

    @property
    def due(self) -> bool:
        """There is no engine to bring them to."""
        return False

    def current(self) -> AbstractContextManager[None]:
        """The recorded versions stand on the turns."""
        return nullcontext()

    def measured(self, gap: float) -> None:
        """The tape may be of other weights."""

    def drifted(self, gap: float) -> None:
        """As for `measured`."""


def read_loss(recorded: Recorded) -> LossReading:
    """Train on a tape in memory, and tell what entered the loss.

    The configured model takes real steps, which are thrown away; nothing is written.

    Args:
        recorded: The tape's groups, and the configuration that plays them.

    Raises:
        ConfigError: TRL cannot honour the configuration.
        BackendFailure: An episode has several segments.
    """
    plan = make_plan(_fitting(recorded.planned))
    plan.require_runnable()
    with TemporaryDirectory() as folder, _trainer(plan, recorded, folder) as trainer:
        trainer.train()
        loss_type = str(trainer.loss_type)
        return LossReading(
            backend="trl",
            source="the batch of a GRPOTrainer",
            rows=tuple(trainer.read),
            aggregation=_AGGREGATIONS.get(loss_type, loss_type),
            constant=recorded.config.algorithm.hyperparameters.max_response_len,
        )


def _fitting(config: RunConfig) -> RunConfig:
    """The configuration without what the tape takes the place of, and what it does not fill.

    That is vLLM, and a micro-batch that the tape's sizes are no multiple of.
    """
    hyper = config.algorithm.hyperparameters
    options = hyper.prefixed("trl")
    micro = options.get(_MICRO_BATCH)
    fits = not isinstance(micro, int) or micro < 1 or hyper.global_batch_size % micro == 0
    left_out = [name for name in options if name == "use_vllm" or name.startswith("vllm_")]
    left_out += [] if fits else [_MICRO_BATCH]
    if not left_out:
        return config
    document = config.model_dump(mode="json")
    for name in left_out:
        del document["algorithm"]["hyperparameters"][f"trl_{name}"]
    return RunConfig.model_validate(document).located(config.base_dir)


@contextmanager
def _trainer(plan: Plan, recorded: Recorded, folder: str) -> Iterator[LossReader]:
    """The trainer that a run would make, fed by the tape."""
    config = recorded.config
    hyper = config.algorithm.hyperparameters
    composition = compose(config)
    engine = load_engine(config.rollout.engine, composition)
    tokenizer = load_tokenizer(config)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = composition.renderer.pad_token_id
    with EventLoopThread() as loop:
        feed = RolloutFeed(
            _batches(recorded, composition.rollouts(engine), loop),
            composition.data_format,
            Launch(),
            weights=nullcontext,
            on_groups=_unrecorded,
        )
        trainer = LossReader(
            feed=feed,
            weights=_NoWeights(),
            data_state=dict,
            truncated_importance=hyper.importance_correction == "tis",
            on_logprobs=_unrecorded,
            vision=composition.image_processor,
            model=load_model(config.model),
            processing_class=tokenizer,
            args=GRPOConfig(**_in_memory(plan, folder)),
            peft_config=lora_config(config.model.peft),
            train_dataset=Dataset.from_dict({"prompt": ["retrain"] * len(recorded.groups)}),
        )
        keep_in_float32(trainer.model, config.model.peft)
        trainer.remove_callback(PrinterCallback)
        yield trainer


def _batches(recorded: Recorded, rollouts: RolloutBridge, loop: EventLoopThread) -> BatchFiller:
    """Fill batches with the recorded groups, all of them, as they come."""
    how = OverSampling(recorded.config.algorithm.hyperparameters.rollout_batch_size)
    manager = rollouts.managed(RecordedOrder(recorded.requests), how)
    batches = BatchFiller(manager, how, rollouts.settings.n_samples, loop, Launch())
    batches.rewards = rollouts.rewards
    return batches


def _in_memory(plan: Plan, folder: str) -> dict[str, Any]:
    """The planned arguments, without what is written and without another engine."""
    written = {"output_dir": folder, "save_strategy": "no", "report_to": "none"}
    return {**plan.arguments, **written, "use_vllm": False}


def _unrecorded(*found: object) -> None:
    """Nothing is recorded."""
