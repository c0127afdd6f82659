"""slime's own train.py and Megatron-LM on the CPU: three iterations, the last one again."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backends.slime.backend import SlimeBackend
from retrain.config import RunConfig
from retrain.report.result import RunResult

NAMED = os.environ.get("RETRAIN_SLIME") and os.environ.get("RETRAIN_MEGATRON")
pytestmark = [
    pytest.mark.slime,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not NAMED, reason="set RETRAIN_SLIME and RETRAIN_MEGATRON to checkouts"),
]

pytest.importorskip("ray", reason="needs ray: pip install 'retrain[slime]'")
pytest.importorskip("wandb", reason="needs what slime imports: its requirements.txt")

HYPER = {
    "num_iterations": 3,
    "rollout_batch_size": 4,
    "n_samples_per_prompt": 4,
    "learning_rate": 1e-3,
    "max_tokens_per_turn": 8,
    "max_response_len": 64,
    "save_interval": 1,
    "slime_update_weight_disk_keep_files": True,
}


@dataclass(frozen=True)
class Loop:
    """A run that has ended."""

    config: RunConfig
    result: RunResult

    @property
    def rows(self) -> list[dict[str, Any]]:
        return read(self.result.run_dir / "metrics.jsonl")

    def samples(self, iteration: int) -> list[dict[str, Any]]:
        return read(self.result.run_dir / "samples" / f"{iteration}.jsonl")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def left_of(run: Path) -> list[str]:
    """Processes that were started for a run: it stands in their command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(run).encode() in said:
            found.append(process.name)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("laptop")


@pytest.fixture(scope="module")
def config(folder: Path, demo_model: Path) -> RunConfig:
    return RunConfig.model_validate(
        {
            "experiment_name": "laptop",
            "seed": 5,
            "output_dir": str(folder / "run"),
            "model": {"name_or_path": str(demo_model), "threads": 1},
            "environment": {"type": "plugin_world:World"},
            "prompt_source": {
                "type": "list",
                "source_config": {"items": [f"question {n}" for n in range(7)]},
            },
            "slime_laptop": {},
            "cluster": {"python_path": [str(Path(__file__).parent)]},
            "algorithm": {
                "name": "grpo",
                "backend": "slime",
                "hyperparameters": HYPER,
            },
        }
    )


def train(config: RunConfig, *, resume: bool = False) -> Loop:
    backend = SlimeBackend()
    result = backend.train(backend.plan(config), resume=resume)
    return Loop(config, result)


@pytest.fixture(scope="module")
def loop(config: RunConfig) -> Loop:
    return train(config)


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    files = folder.glob("*.safetensors")
    return {name: value.float() for file in files for name, value in load_file(file).items()}


def test_the_weights_move_and_come_out_as_hugging_face_knows_them(loop: Loop) -> None:
    before = weights(Path(loop.config.model.name_or_path))
    after = weights(loop.result.model_dir)
    assert set(after) == set(before)
    moved = {name for name in after if (after[name] - before[name]).abs().max() > 1e-4}
    assert {"model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"} <= moved
    assert "model.layers.0.input_layernorm.weight" in after


def test_each_rollout_is_written_by_the_newest_weights(loop: Loop) -> None:
    versions = [{v for row in loop.samples(n) for v in row["weight_versions"]} for n in (1, 2, 3)]
    assert versions == [{"1"}, {"2"}, {"3"}]


def test_the_trainer_agrees_with_the_engine_about_every_token(loop: Loop) -> None:
    found = [row["train/logprob_abs_diff"] for row in loop.rows if "train/logprob_abs_diff" in row]
    assert len(found) == 3
    assert max(found) < 0.02, "bfloat16 against float32; wrong tokens give whole units"


def test_a_batch_trains_on_what_was_sampled_only(loop: Loop) -> None:
    for row in loop.samples(1):
        assert len(row["loss_mask"]) == row["response_length"] == len(row["rollout_log_probs"])
        pairs = zip(row["loss_mask"], row["rollout_log_probs"], strict=True)
        assert all(logprob == 0.0 for mask, logprob in pairs if not mask)


def test_nothing_is_left_running_and_no_weights_lie_about(loop: Loop) -> None:
    assert left_of(loop.result.run_dir) == []
    assert not (loop.result.run_dir / "weights").exists()


def test_a_resumed_run_goes_on_from_the_newest_complete_checkpoint(loop: Loop) -> None:
    tasks = [row["task_id"] for row in loop.samples(3)]
    shutil.rmtree(loop.result.model_dir)
    further = train(loop.config, resume=True)
    assert further.result.iterations == 3
    assert [row["iteration"] for row in further.rows if "reward/mean" in row] == [1, 2, 3]
    assert [row["task_id"] for row in further.samples(3)] == tasks
    last = [row["train/logprob_abs_diff"] for row in further.rows if "train/seconds" in row][-1]
    assert last < 0.02, "the trainer's weights and the engine's are the same after a resume"
