"""Stages, evaluation and export: what a whole run leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_sft import ROWS

from backends.trl.backend import TRLBackend
from retrain.config import RunConfig
from retrain.errors import BackendFailure, ConfigError, RunFolderError
from retrain.report.metrics import read_metrics
from retrain.report.result import read_result
from retrain.report.samples import read_samples
from retrain.training import plan_run, train

pytestmark = pytest.mark.slow


@pytest.fixture
def staged(config: Any, tmp_path: Path) -> Any:
    path = tmp_path / "demonstrations.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def make(**sections: Any) -> RunConfig:
        base = config(num_iterations=2).model_dump(mode="json")
        base["environment"] = {"type": "calculator"}
        base["evaluation"] = {"prompt_source": base["prompt_source"], "interval": 1}
        for task in (base["prompt_source"], base["evaluation"]["prompt_source"]):
            items = [
                {"id": f"t{i}", "prompt": f"{i}+1 then *2", "label": 2 * i + 2} for i in range(5)
            ]
            task["source_config"]["items"] = items
        hyper = base["algorithm"]["hyperparameters"]
        for key in ("num_epochs", "global_batch_size", "eval_interval", "save_interval"):
            hyper.pop(key)
        imitation = {"num_iterations": 3, "global_batch_size": 4, "learning_rate": 3e-3}
        base["stages"] = [
            {
                "name": "imitate",
                "prompt_source": {"type": "jsonl", "source_config": {"path": str(path)}},
                "algorithm": {"name": "sft", "hyperparameters": imitation},
            },
            {"name": "explore"},
        ]
        return RunConfig.model_validate({**base, **sections})

    return make


def test_each_stage_starts_from_the_weights_of_the_one_before(staged: Any) -> None:
    made = staged()
    result = train(made)
    root = made.output_dir
    imitated = root / "stages" / "imitate" / "model"
    assert result.run_dir == root / "stages" / "explore"
    plan = json.loads((result.run_dir / "plan.json").read_text())
    assert plan["max_steps"] == 2
    assert str(imitated) in (result.run_dir / "config.yaml").read_text()
    assert (root / "curve.png").stat().st_size > 10_000
    assert (root / "config.yaml").is_file()
    rows = read_metrics(result.run_dir / "metrics.jsonl")
    evaluated = [row.iteration for row in rows if "eval/success" in row.values]
    assert evaluated == [0, 1, 2]
    episodes = list(read_samples(result.run_dir / "samples" / "eval-0.jsonl"))
    assert len(episodes) == 5


def test_resume_passes_over_what_is_finished(staged: Any) -> None:
    made = staged()
    train(made)
    explore = made.output_dir / "stages" / "explore"
    (explore / "state" / "result.json").unlink()
    imitated = (made.output_dir / "stages" / "imitate" / "model" / "model.safetensors").stat()
    result = train(made, resume=True)
    again = (made.output_dir / "stages" / "imitate" / "model" / "model.safetensors").stat()
    assert again.st_mtime_ns == imitated.st_mtime_ns, "the first stage is not trained again"
    assert result.iterations == 2
    assert read_result(explore) is not None
    rows = [row.iteration for row in read_metrics(explore / "metrics.jsonl")]
    assert rows == [0, 1, 1, 2, 2], "the killed stage began again, and its old rows moved aside"


def test_second_run_into_the_folder_is_refused(staged: Any) -> None:
    made = staged()
    train(made)
    with pytest.raises(RunFolderError, match="already holds a run"):
        train(made)


def test_mistake_in_the_last_stage_shows_before_the_first_trains(staged: Any) -> None:
    made = staged()
    wrong = {"name": "explore", "algorithm": {"hyperparameters": {"trl_scale_rewards": "group"}}}
    made = made.model_copy(update={"stages": (made.stages[0], type(made.stages[0])(**wrong))})
    with pytest.raises(ConfigError, match="trl_scale_rewards: is refused"):
        train(made)
    assert not made.output_dir.exists()


def test_plan_of_a_staged_run_has_a_part_for_each(staged: Any) -> None:
    plans = plan_run(staged())
    assert [(stage.name, stage.plan.entry) for stage in plans] == [
        ("imitate", "trl.SFTTrainer"),
        ("explore", "trl.GRPOTrainer"),
    ]


def test_export_copies_the_weights(config: Any, tmp_path: Path) -> None:
    backend = TRLBackend()
    made = config(num_iterations=1, save_interval=1)
    with pytest.raises(RunFolderError, match="holds no weights yet"):
        backend.export(made.output_dir, tmp_path / "out")
    train(made)
    out = backend.export(made.output_dir, tmp_path / "out")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in out.iterdir()}
    with pytest.raises(RunFolderError, match="exists already"):
        backend.export(made.output_dir, out)


def test_failure_inside_trl_is_one_message(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.trl.trainer import BridgedGRPOTrainer

    def fail(self: Any, model: Any, inputs: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(BridgedGRPOTrainer, "_compute_loss", fail)
    made = config(num_iterations=1)
    with pytest.raises(BackendFailure, match="TRL: RuntimeError: out of memory"):
        train(made)
    assert "Traceback" in (made.output_dir / "events.log").read_text()
