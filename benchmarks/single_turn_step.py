"""A whole GRPO training step of single-turn episodes: bare TRL, and the same one through retrain.

Both get the same `GRPOConfig`, model, prompts and reward function. Stop tokens are never sampled,
so every answer has the same length on both sides.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from datasets import Dataset
from multiturn_model import make_model, make_tokenizer, qwen3_template, unending, word
from transformers import AutoTokenizer, PrinterCallback
from transformers.trainer_callback import ProgressCallback
from trl import GRPOConfig, GRPOTrainer

from backends.base import Plan
from backends.trl.backend import TRLBackend
from retrain.config import RunConfig
from retrain.engine.transformers_loading import load_model
from retrain.environment import Environment
from retrain.types import Action, Observation, StepResult, Task

PROMPTS, GENERATIONS, MICRO_BATCH = 8, 8, 16
ANSWER_TOKENS, POSITIONS = 64, 512


class OneAnswer(Environment):
    """Ends after the first answer."""

    async def reset(self, task: Task, seed: int) -> Observation:
        """The task's messages."""
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """Over."""
        return StepResult(Observation(), terminated=True)


def letters(completions: Sequence[Any], **columns: Any) -> list[float]:
    """How many different letters an answer has, in hundreds."""
    return [len(set(messages[0]["content"])) / 100 for messages in completions]


def step_ratio(steps: int) -> tuple[float, float, float]:
    """CPU time of a training step, retrain's over bare TRL's: the median and the quartiles.

    Both are trained twice, in opposite orders, so that a machine that grows busier favours neither.
    The first step of each training does not count.

    Args:
        steps: Optimizer steps of each training that count.
    """
    seconds: dict[Any, list[float]] = {bare: [], through_retrain: []}
    with tempfile.TemporaryDirectory() as folder:
        stop = save_model(Path(folder) / "model")
        with unending(stop):
            for number, side in enumerate((bare, through_retrain, through_retrain, bare)):
                plan = make_plan(Path(folder) / "model", Path(folder) / str(number), steps + 1)
                with _clock() as times:
                    side(plan)
                seconds[side] += [end - begin for begin, end in pairwise(times)][1:]
    theirs = statistics.median(seconds[bare])
    low, middle, high = statistics.quantiles(seconds[through_retrain], n=4)
    return middle / theirs, low / theirs, high / theirs


def save_model(folder: Path) -> int:
    """Write a random model and its tokenizer; returns the stop token."""
    tokenizer = make_tokenizer(qwen3_template())
    make_model(128, 4, tokenizer, POSITIONS).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return int(tokenizer.eos_token_id)


def make_plan(model: Path, output: Path, steps: int) -> Plan:
    """A run of `steps` iterations of one optimizer step each; both sides read it."""
    hyper = {
        "num_iterations": steps + 1,
        "rollout_batch_size": PROMPTS,
        "n_samples_per_prompt": GENERATIONS,
        "learning_rate": 1e-6,
        "max_response_len": ANSWER_TOKENS,
        "trl_per_device_train_batch_size": MICRO_BATCH,
    }
    sections = {
        "experiment_name": "step",
        "output_dir": str(output),
        "model": {"name_or_path": str(model), "threads": 1},
        "environment": {"type": "single_turn_step:OneAnswer"},
        "prompt_source": {"type": "list", "source_config": {"items": _rows()}},
        "algorithm": {"name": "grpo", "backend": "trl", "hyperparameters": hyper},
        "reward_setup": {"rollout_reward_configs": {"single_turn_step:letters": {}}},
    }
    return TRLBackend().plan(RunConfig.model_validate(sections))


def bare(plan: Plan) -> None:
    """Train with TRL alone."""
    trainer = GRPOTrainer(
        model=load_model(plan.config.model),
        reward_funcs=[letters],
        args=GRPOConfig(**plan.arguments),
        train_dataset=Dataset.from_list(_rows()),
        processing_class=AutoTokenizer.from_pretrained(plan.config.model.name_or_path),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    trainer.train()


def through_retrain(plan: Plan) -> None:
    """Train with TRL through retrain."""
    TRLBackend().train(plan)


def _rows() -> list[dict[str, Any]]:
    return [
        {"prompt": [{"role": "user", "content": "".join(word(n * row) for n in range(40))}]}
        for row in range(1, PROMPTS + 1)
    ]


@contextmanager
def _clock() -> Iterator[list[float]]:
    """The process's CPU time at the beginning of every training step, by optimizer step."""
    plain, times = GRPOTrainer._prepare_inputs, []

    def prepare(trainer: GRPOTrainer, batch: Any) -> Any:
        if trainer._step % trainer.args.gradient_accumulation_steps == 0:
            times.append(time.process_time())
        return plain(trainer, batch)

    GRPOTrainer._prepare_inputs = prepare
    try:
        yield times
    finally:
        GRPOTrainer._prepare_inputs = plain
