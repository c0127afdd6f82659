"""One optimizer step of a given batch: the native loop's against TRL's, as a ratio of CPU times.

Both get copies of the same random Qwen3 and the same rows of tokens, masks, log-probabilities and
advantages; nothing is generated. Times are those of the process, all threads together, so that
other load on the machine does not count.

    python benchmarks/native_step.py [--rows 32] [--tokens 256] [--hidden 256] [--steps 5]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from backends.torch.objective import PolicyObjective
from backends.torch.passes import PassSettings, forward_backward
from backends.torch.ranks import Ranks
from backends.torch.rows import TrainingBatch, TrainingRow
from backends.torch.schedule import OptimizerSettings, make_optimizer

WORDS, LAYERS = 8192, 6


def make_model(hidden: int) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=WORDS,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden // 4,
    )
    return Qwen3ForCausalLM(config)


def make_batch(rows: int, tokens: int) -> TrainingBatch:
    """Rows of `tokens` tokens at most, a quarter of them prompt, with some replies in between."""
    rng = random.Random(0)
    made = []
    for index in range(rows):
        response = rng.randint(tokens // 4, tokens - tokens // 4)
        mask = tuple(int(rng.random() < 0.8) for _ in range(response))
        made.append(
            TrainingRow(
                tokens=tuple(rng.randrange(WORDS) for _ in range(tokens // 4 + response)),
                mask=mask,
                old=tuple(-9.0 if flag else 0.0 for flag in mask),
                advantage=rng.uniform(-1, 1),
                index=index,
            )
        )
    return TrainingBatch(tuple(made)).weighted("token")


def native_step(batch: TrainingBatch, hidden: int, budget: int, packed: bool) -> Callable[[], None]:
    model = make_model(hidden)
    optimizer = make_optimizer(model, OptimizerSettings(learning_rate=1e-6))
    settings = PassSettings(micro_batch_tokens=budget, packed=packed)

    def step() -> None:
        forward_backward(model, batch.rows, PolicyObjective(), settings, Ranks())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def trl_step(batch: TrainingBatch, hidden: int, micro: int, folder: str) -> Callable[[], None]:
    """TRL's forward, loss and backward over micro-batches, and the same optimizer."""
    rows = batch.rows
    passes = len(rows) // micro
    trainer = GRPOTrainer(
        model=make_model(hidden),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=passes,
            steps_per_generation=passes,
            num_generations=micro,
            gradient_checkpointing=False,
            report_to="none",
            loss_type="dapo",
        ),
        train_dataset=Dataset.from_dict({"prompt": ["-"] * len(rows)}),
        processing_class=_tokenizer(),
    )
    trainer.current_gradient_accumulation_steps = passes
    trainer.model.train()
    parts = [trl_inputs(rows[at : at + micro]) for at in range(0, len(rows), micro)]
    total = sum(row.trained for row in rows)
    optimizer = make_optimizer(trainer.model, OptimizerSettings(learning_rate=1e-6))

    def step() -> None:
        for part in parts:
            inputs = {**part, "num_items_in_batch": torch.tensor(float(total))}
            trainer._compute_loss(trainer.model, inputs).backward()
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def trl_inputs(rows: tuple[TrainingRow, ...]) -> dict[str, Any]:
    prompt = max(row.prompt_length for row in rows)
    after = max(len(row.mask) for row in rows)

    def right(values: Any) -> list[Any]:
        return [*values, *[0] * (after - len(values))]

    return {
        "prompt_ids": torch.tensor([row.tokens[:prompt] for row in rows]),
        "prompt_mask": torch.ones(len(rows), prompt, dtype=torch.long),
        "completion_ids": torch.tensor([right(row.tokens[prompt:]) for row in rows]),
        "completion_mask": torch.tensor([right([1] * len(row.mask)) for row in rows]),
        "tool_mask": torch.tensor([right(row.mask) for row in rows]),
        "advantages": torch.tensor([row.advantage for row in rows]),
        "old_per_token_logps": torch.tensor([right(row.old) for row in rows]),
    }


def _tokenizer() -> Any:
    from multiturn_model import make_tokenizer, qwen3_template

    return make_tokenizer(qwen3_template())


def seconds(step: Callable[[], None]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rows", 32), ("tokens", 256), ("hidden", 256), ("steps", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    torch.set_num_threads(1)
    batch, micro = make_batch(given.rows, given.tokens), 8
    budget = micro * given.tokens
    with tempfile.TemporaryDirectory() as folder:
        steps = {
            "trl": trl_step(batch, given.hidden, micro, folder),
            "native, padded": native_step(batch, given.hidden, budget, packed=False),
            "native, packed": native_step(batch, given.hidden, given.tokens, packed=True),
        }
        for step in steps.values():
            step()
        times: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(given.steps):
            for name, step in steps.items():
                times[name].append(seconds(step))
    middle = {name: statistics.median(found) for name, found in times.items()}
    for name, value in middle.items():
        ratios = [one / other for one, other in zip(times[name], times["trl"], strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{name:15} {value:6.2f} s of CPU   ratio {statistics.median(ratios):.2f} ({spread})")


if __name__ == "__main__":
    main()
