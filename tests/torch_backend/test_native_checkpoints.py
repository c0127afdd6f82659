"""What a checkpoint survives: a kill at any point, damage, a model part that nothing reached."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import distributed
from transformers import AutoModelForImageTextToText, Gemma3Config

from backends.local.checkpoints import MARKER
from backends.torch.factory import create_pytorch_backend
from backends.torch.fsdp import create_fsdp_backend
from backends.torch.rows import TrainingBatch
from backends.torch.saving import checkpoints
from retrain.errors import ConfigError, DataError

Steps = Callable[..., Any]


@pytest.fixture
def train(samples: Any) -> Steps:
    """Takes steps on batches of these seeds; gives their losses."""

    async def steps(backend: Any, *seeds: int) -> list[float]:
        losses = []
        for seed in seeds:
            batch = TrainingBatch.of(samples(4, seed=seed)).weighted("token")
            computed, stepped = backend.forward_backward(batch), backend.optim_step()
            losses.append((await computed)["train/loss"])
            await stepped
        return losses

    return steps


@pytest.fixture
def make(model_dir: Path, tmp_path: Path) -> Callable[..., Any]:
    def backend(folder: str = "checkpoints", model: Path = model_dir) -> Any:
        return create_pytorch_backend(
            str(model), checkpoint_dir=tmp_path / folder, learning_rate=1e-2
        )

    return backend


async def test_a_checkpoint_before_the_first_step_counts_no_step(make: Any, train: Steps) -> None:
    with make() as untouched:
        expected = await train(untouched, 1, 2, 3)
    with make() as saved:
        folder = await saved.save_checkpoint(0, {})
        assert await train(saved, 1, 2, 3) == expected
    with make("others") as loaded:
        await loaded.load_checkpoint(folder)
        assert await train(loaded, 1, 2, 3) == expected


async def test_what_a_killed_save_left_is_cleared_away(
    make: Any, train: Steps, tmp_path: Path
) -> None:
    root = tmp_path / "checkpoints"
    with make() as backend:
        await train(backend, 1)
        whole = await backend.save_checkpoint(1, {})
        shutil.copytree(whole, root / ".checkpoint-7.partial")
        assert (root / ".checkpoint-7.partial" / MARKER).is_file()
        for step in (2, 3):
            await backend.save_checkpoint(step, {})
    assert sorted(path.name for path in root.iterdir()) == ["checkpoint-2", "checkpoint-3"]


async def test_a_checkpoint_is_never_half_removed_and_complete(
    make: Any, train: Steps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Killed while it removes an older one, or the one that it writes anew."""

    class Killed(BaseException):
        pass

    real = shutil.rmtree

    def dies(path: Path, **given: Any) -> None:
        if path.name == "checkpoint-1":
            (path / "model.safetensors").unlink()
            raise Killed
        real(path, **given)

    with make() as backend:
        await train(backend, 1)
        await backend.save_checkpoint(1, {})
        monkeypatch.setattr(checkpoints.shutil, "rmtree", dies)
        with pytest.raises(Killed):
            await backend.save_checkpoint(1, {})
    assert not [*(tmp_path / "checkpoints").glob(f"checkpoint-*/{MARKER}")]


@pytest.mark.parametrize("name", ["random-0.pt", "optimizer/__0_0.distcp", "optimizer/.metadata"])
@pytest.mark.parametrize("left", [b"", b"hello world"])
async def test_a_damaged_file_is_named(make: Any, train: Steps, name: str, left: bytes) -> None:
    with make() as backend:
        await train(backend, 1)
        folder = await backend.save_checkpoint(1, {})
    (folder / name).write_bytes(left)
    with (
        make("others") as other,
        pytest.raises(DataError, match=f"{name.partition('/')[0]}.*cannot be read") as caught,
    ):
        await other.load_checkpoint(folder)
    assert "ranks:" not in str(caught.value), "torch's own message says by rank what went wrong"


async def test_a_model_with_eyes_goes_on_though_nothing_reached_them(
    make: Any, train: Steps, tmp_path: Path
) -> None:
    text = {
        "vocab_size": 90,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
    }
    eyes = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    ids = {"image_token_index": 89, "boi_token_index": 88, "eoi_token_index": 87}
    shape = Gemma3Config(text_config=text, vision_config=eyes, mm_tokens_per_image=4, **ids)
    model = tmp_path / "gemma"
    AutoModelForImageTextToText.from_config(shape).save_pretrained(model)
    torch.set_num_threads(1)
    with make(model=model) as whole:
        await train(whole, 1)
        folder = await whole.save_checkpoint(1, {})
        expected = await train(whole, 2, 3)
    with make("others", model) as again:
        await again.load_checkpoint(folder)
        assert await train(again, 2, 3) == expected


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of processes that this one is the only one of."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


async def test_weights_of_a_sharded_model_are_all_read_or_none(
    alone: None, model_dir: Path, tmp_path: Path, make: Any, train: Steps
) -> None:
    """A checkpoint that lacks one, or holds a damaged file, is told as in one process."""
    with make() as whole:
        await train(whole, 1)
        folder = await whole.save_checkpoint(1, {})
        expected = await train(whole, 2)
    with create_fsdp_backend(str(model_dir), checkpoint_dir=tmp_path / "sharded") as backend:
        await backend.load_checkpoint(folder)
        assert await train(backend, 2) == pytest.approx(expected, rel=1e-5)
    file = folder / "model.safetensors"
    good = load_file(file)
    name = "model.layers.0.mlp.up_proj.weight"
    for bad, said in (({k: v for k, v in good.items() if k != name}, name), (None, "can be read")):
        if bad is None:
            file.write_bytes(b"no weights")
        else:
            save_file(bad, file, {"format": "pt"})
        with (
            create_fsdp_backend(str(model_dir), checkpoint_dir=tmp_path / "sharded") as backend,
            pytest.raises(ConfigError, match=said),
        ):
            await backend.load_checkpoint(folder)
