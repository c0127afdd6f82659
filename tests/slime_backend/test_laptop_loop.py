"""slime's own train.py and Megatron-LM on the CPU: three iterations, the last one again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from laptop_world import MARKS, Loop, laptop_config, train

pytestmark = MARKS

pytest.importorskip("ray", reason="needs ray: pip install 'retrain[slime]'")
pytest.importorskip("wandb", reason="needs what slime imports: its requirements.txt")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory, demo_model: Path) -> Loop:
    keep = {"slime_update_weight_disk_keep_files": True}
    return train(laptop_config(tmp_path_factory.mktemp("laptop") / "run", demo_model, keep))


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
    assert loop.left == []
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
