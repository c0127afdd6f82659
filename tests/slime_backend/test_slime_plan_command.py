"""`retrain plan --backend slime`, where slime is not installed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from backends.slime.flags import known_flags
from retrain.cli.main import app

pytestmark = pytest.mark.slow


@pytest.fixture
def run(demo_model: Path, tmp_path: Path) -> Any:
    """Runs `retrain plan` over the demo's model; keyword arguments are hyperparameters."""

    def plan(*words: str, **hyper: Any) -> Any:
        rows = [{"id": "sum", "prompt": "75+99 then *6", "label": "1044"}]
        given = {"num_iterations": 2, "rollout_batch_size": 2, "n_samples_per_prompt": 2}
        config = {
            "experiment_name": "tiny",
            "output_dir": str(tmp_path / "run"),
            "model": {"name_or_path": str(demo_model)},
            "environment": {"type": "calculator"},
            "prompt_source": {"type": "list", "source_config": {"items": rows}},
            "algorithm": {"name": "grpo", "hyperparameters": {**given, **hyper}},
        }
        (tmp_path / "c.yaml").write_text(json.dumps(config))
        options = [str(tmp_path / "c.yaml"), "--backend", "slime", *words]
        return CliRunner().invoke(app, ["plan", *options])

    return plan


def test_the_exact_command_line_is_shown(run: Any, tmp_path: Path) -> None:
    result = run(slime_wandb_group="two words")
    assert result.exit_code == 0, result.output
    command = result.stdout.partition("-- its command line --\n")[2].partition("\n\n")[0]
    words = shlex.split(command)
    assert words[:2] == ["python3", "train.py"]
    assert words[words.index("--wandb-group") + 1] == "two words"
    assert words[words.index("--lr-decay-style") + 1] == "constant"
    spelled = {flag.spelling for flag in known_flags().values()}
    assert {word for word in words if word.startswith("--")} <= spelled
    assert "max_tokens_per_gpu" in result.stdout.partition("-- sizes --")[2]
    assert "warning: algorithm.hyperparameters.slime_actor_num_gpus_per_node" in result.stdout
    assert not (tmp_path / "run").exists()


def test_the_command_line_is_part_of_the_document(run: Any) -> None:
    (stage,) = json.loads(run("--json", slime_wandb_key="w4ndb-secret").stdout)["stages"]
    assert stage["backend"] == "slime" and stage["entry"] == "train.py"
    assert stage["command"][:2] == ["python3", "train.py"]
    assert "w4ndb-secret" not in json.dumps(stage)


def test_a_wrong_option_is_one_clear_error(run: Any) -> None:
    result = run(slime_max_tokens_per_gpuu=1)
    assert result.exit_code == 2
    assert "slime_max_tokens_per_gpuu: slime has no option" in result.stderr
    assert "did you mean 'max_tokens_per_gpu'" in result.stderr
    assert "Traceback" not in result.output
