"""Conversations become samples: masks on what the assistant wrote, cut where they are too long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from backends.torch.configs import SFTTrainingConfig
from backends.torch.factory import create_pytorch_backend
from backends.torch.sft_data import load_sft_dataset
from backends.torch.sft_loop import run_sft_training
from retrain.errors import ConfigError, DataError
from retrain.report.samples import write_samples


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    rows = [
        {
            "id": f"d{i}",
            "messages": [
                {"role": "user", "content": f"{i}+1 then *2"},
                {"role": "assistant", "content": str(2 * i + 2)},
                {"role": "user", "content": "again"},
                {"role": "assistant", "content": str(2 * i + 2) * 3},
            ],
        }
        for i in range(6)
    ]
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def tokenizer(model_dir: Path) -> Any:
    return AutoTokenizer.from_pretrained(model_dir)


def test_masks_are_on_what_the_assistant_wrote(conversations: Path, tokenizer: Any) -> None:
    loaded = load_sft_dataset(conversations, tokenizer=tokenizer)
    assert (len(loaded.samples), loaded.truncated, loaded.dropped) == (6, 0, 0)
    sample = loaded.samples[3]
    pairs = zip(sample.response_ids, sample.loss_mask, strict=True)
    text = tokenizer.decode([token for token, flag in pairs if flag])
    assert text.count("8") == 4
    assert "again" not in text


def test_what_is_too_long_is_cut_and_counted(conversations: Path, tokenizer: Any) -> None:
    whole = load_sft_dataset(conversations, tokenizer=tokenizer, max_samples=3)
    assert len(whole.samples) == 3
    first = whole.samples[0]
    prompt = len(first.prompt_ids)
    cut = load_sft_dataset(conversations, tokenizer=tokenizer, max_length=prompt + 2)
    assert cut.truncated == len(cut.samples) > 0
    assert cut.samples[0].tokens == first.tokens[: prompt + 2]
    for sample in cut.samples:
        sample.validate()
        assert sample.status == "truncated"
        assert sample.response == tokenizer.decode(sample.response_ids)
    turn = len(first.loss_mask[: first.loss_mask.index(0)])
    between = load_sft_dataset(conversations, tokenizer=tokenizer, max_length=prompt + turn + 3)
    assert between.samples[0].response_length == turn, "nothing after the last token to imitate"
    assert between.samples[0].loss_mask == [1] * turn
    path = conversations.with_name("failed.jsonl")
    assert write_samples(path, between.samples, decode=tokenizer.decode) == len(between.samples)
    none = load_sft_dataset(conversations, tokenizer=tokenizer, max_length=4)
    assert (none.samples, none.truncated, none.dropped) == ((), 0, 6)


def test_a_row_that_is_no_conversation_is_named(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"id": "odd", "prompt": "hello"}\n')
    with pytest.raises(DataError, match="odd"):
        load_sft_dataset(path, tokenizer=tokenizer)


async def test_the_loop_learns_them(
    conversations: Path, tokenizer: Any, model_dir: Path, tmp_path: Path
) -> None:
    """Called as people call it: a backend by name, samples, a logger; then a checkpoint."""
    rows: list[tuple[int, float]] = []

    class Logger:
        def log(self, metrics: Any, step: int) -> None:
            rows.append((step, metrics["train/loss"]))

    samples = load_sft_dataset(conversations, tokenizer=tokenizer).samples
    given = {"checkpoint_dir": tmp_path / "checkpoints", "loss_fn": "sft", "learning_rate": 1e-2}
    config = SFTTrainingConfig(num_steps=6, batch_size=4, log_every=2, checkpoint_every=3)
    with create_pytorch_backend(str(model_dir), **given) as backend:
        history = await run_sft_training(backend, samples, config, Logger())
    assert [step for step, _ in rows] == [2, 4, 6]
    assert history[-1]["train/loss"] < history[0]["train/loss"]
    with create_pytorch_backend(str(model_dir), **given) as again:
        metrics = await again.load_checkpoint(tmp_path / "checkpoints" / "checkpoint-3")
        assert (again.step, metrics) == (3, history[2])
        assert await run_sft_training(again, samples, config) == history[3:]
        with pytest.raises(DataError, match=r"checkpoint-5.*cannot be read"):
            await again.load_checkpoint(tmp_path / "checkpoints" / "checkpoint-5")
    with pytest.raises(ConfigError, match=r"no loss 'grpp'; did you mean 'grpo'"):
        create_pytorch_backend(str(model_dir), checkpoint_dir=tmp_path, loss_fn="grpp")
