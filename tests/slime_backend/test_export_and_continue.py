"""Weights and the place in the data go from one backend to the other, and back."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model
from typer.testing import CliRunner

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")

from backends.slime.data_source import DataSource
from backends.slime.exporting import complete_model, export_run
from backends.slime.handover import handover_document
from backends.starts import find_start
from retrain.cli.main import app
from retrain.cli.run_stages import run_or_stage
from retrain.compose import make_buffer, make_tasks
from retrain.config import RunConfig, dump_config
from retrain.errors import ConfigError, DataError, RunFolderError
from retrain.report.start import read_start, write_start
from retrain.training import train

INDEX = "model.safetensors.index.json"

pytestmark = pytest.mark.slow

Make = Callable[..., RunConfig]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_demo_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def make(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    root = tmp_path_factory.mktemp("runs")

    def config(backend: str, run: str, *, seed: int = 5, **sections: Any) -> RunConfig:
        hyper = {
            "num_iterations": 2,
            "rollout_batch_size": 2,
            "n_samples_per_prompt": 2,
            "max_response_len": 24,
            "save_interval": 1,
        }
        items = [{"prompt": f"{i}+{i} then *2", "label": str(4 * i)} for i in range(9)]
        return RunConfig.model_validate(
            {
                "experiment_name": "both",
                "seed": seed,
                "output_dir": str(root / run),
                "model": {"name_or_path": str(model), "threads": 1},
                "environment": {"type": "calculator"},
                "prompt_source": {"type": "list", "source_config": {"items": items}},
                "algorithm": {"name": "grpo", "backend": backend, "hyperparameters": hyper},
                **sections,
            }
        )

    return config


@pytest.fixture(scope="module")
def on_trl(make: Make) -> Path:
    """A run that TRL has trained for two iterations of two groups."""
    return train(make("trl", "trl")).run_dir


def data_source(config: RunConfig) -> DataSource:
    """slime's data source as its rollout manager makes it."""
    return DataSource(Namespace(**handover_document(config, config.output_dir)))


def drawn_after(config: RunConfig, groups: int, count: int) -> list[str]:
    """The tasks that one uninterrupted run draws after `groups` groups."""
    buffer = make_buffer(config, make_tasks(config))
    buffer.draw(groups)
    return [request.task.id for request in buffer.draw(count)]


def tasks_of(groups: list[list[Any]]) -> list[str]:
    return [group[0].metadata["retrain_request"]["task"] for group in groups]


def slime_run(config: RunConfig, model: Path, *, rollouts: int) -> Path:
    """Leave what slime and our data source leave after some rollouts of two groups."""
    run = config.output_dir
    (run / "state").mkdir(parents=True)
    (run / "config.yaml").write_text(dump_config(config))
    source = data_source(config)
    source.load(-1)
    for _ in range(rollouts):
        source.get_samples(2)
    last = rollouts - 1
    source.snapshot(last)
    source.save(last)
    weights = run / "checkpoints" / "slime"
    (weights / f"iter_{last:07d}").mkdir(parents=True)
    (weights / "latest_checkpointed_iteration.txt").write_text(str(last))
    folder = run / "checkpoints" / "hf" / str(last)
    shutil.copytree(model, folder)
    names = {"weight_map": {}, "metadata": {}}
    (folder / INDEX).write_text(json.dumps(names))
    return run


def test_slime_goes_on_where_trl_stood(make: Make, on_trl: Path) -> None:
    start = find_start(on_trl)
    assert (start.backend, start.iteration) == ("trl", 2)
    assert start.model_dir == on_trl / "checkpoints" / "checkpoint-2"
    config = make("slime", "then-slime")
    write_start(config.output_dir, start)
    source = data_source(config)
    source.load(-1)
    assert tasks_of(source.get_samples(3)) == drawn_after(config, 4, 3)


def test_other_tasks_or_another_seed_are_refused(make: Make, on_trl: Path) -> None:
    config = make("slime", "other-seed", seed=6)
    write_start(config.output_dir, find_start(on_trl))
    with pytest.raises(DataError, match="seed: 5 then, 6 now"):
        data_source(config).load(-1)


def test_trl_goes_on_where_slime_stood(make: Make, model: Path, tmp_path: Path) -> None:
    run = slime_run(make("slime", "slime"), model, rollouts=3)
    (run / "checkpoints" / "hf" / "2" / INDEX).unlink()  # a real one names real shards
    with pytest.raises(RunFolderError, match="no complete checkpoint"):
        find_start(run)
    weights = run / "checkpoints" / "hf" / "2" / "model.safetensors"
    index = {"metadata": {}, "weight_map": dict.fromkeys(_names(weights), weights.name)}
    (run / "checkpoints" / "hf" / "2" / INDEX).write_text(json.dumps(index))

    config = make("trl", "then-trl")
    result = train(config, continue_from=run)
    start = read_start(result.run_dir)
    assert start is not None
    assert (start.backend, start.iteration) == ("slime", 3)
    assert str(start).endswith("the learning-rate schedule begin again")
    rows = (result.run_dir / "samples" / "1.jsonl").read_text().splitlines()
    played = list(dict.fromkeys(_task(json.loads(row)) for row in rows))
    assert played == drawn_after(config, 6, 2)
    assert str(run) in (result.run_dir / "config.yaml").read_text()  # the weights it began with


def _names(weights: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(weights, framework="pt") as file:
        return list(file.keys())


def _task(row: dict[str, Any]) -> str:
    return str(row["task_id"])


def test_a_slime_checkpoint_is_exported_whole(make: Make, model: Path, tmp_path: Path) -> None:
    run = slime_run(make("slime", "exported"), model, rollouts=1)
    to = export_run(run, tmp_path / "model")
    assert {"config.json", "tokenizer.json", INDEX} <= {path.name for path in to.iterdir()}
    with pytest.raises(RunFolderError, match="exists already"):
        export_run(run, to)


def test_a_missing_tokenizer_is_put_beside_the_weights(
    make: Make, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    complete_model(tmp_path, make("slime", "unused"))
    assert (tmp_path / "tokenizer.json").is_file()
    (tmp_path / "config.json").unlink()
    with pytest.raises(RunFolderError, match=r"holds no config\.json"):
        complete_model(tmp_path, make("slime", "unused"))


def test_weights_of_megatron_alone_are_refused_with_the_command_that_converts_them(
    make: Make, model: Path, tmp_path: Path
) -> None:
    cluster = {"slime": "/opt/slime"}
    run = slime_run(make("slime", "unconverted", cluster=cluster), model, rollouts=1)
    shutil.rmtree(run / "checkpoints" / "hf")
    with pytest.raises(RunFolderError) as caught:
        export_run(run, tmp_path / "model")
    message = str(caught.value)
    assert "/opt/slime/tools/convert_torch_dist_to_hf.py" in message
    assert f"--input-dir={run / 'checkpoints' / 'slime' / 'iter_0000000'}" in message
    assert f"--origin-hf-dir={model}" in message


def test_a_run_without_a_checkpoint_cannot_be_gone_on_from(make: Make, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="holds no run"):
        find_start(tmp_path)
    (tmp_path / "config.yaml").write_text(dump_config(make("trl", "empty")))
    with pytest.raises(RunFolderError, match="train with save_interval"):
        find_start(tmp_path)


def test_an_adapter_must_be_merged_first(make: Make, on_trl: Path, tmp_path: Path) -> None:
    run = shutil.copytree(on_trl, tmp_path / "adapter")
    checkpoint = run / "checkpoints" / "checkpoint-2"
    (checkpoint / "config.json").unlink()
    (checkpoint / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"\(an adapter\).*retrain export"):
        find_start(run)


def test_of_a_run_with_stages_the_last_that_has_begun_is_meant(make: Make, tmp_path: Path) -> None:
    stages = [{"name": "warm"}, {"name": "hard"}, {"name": "harder"}]
    config = make("trl", "staged", stages=stages)
    (tmp_path / "config.yaml").write_text(dump_config(config))
    for name in ("warm", "hard"):
        (tmp_path / "stages" / name).mkdir(parents=True)
        (tmp_path / "stages" / name / "config.yaml").touch()
    assert run_or_stage(tmp_path) == tmp_path / "stages" / "hard"
    assert run_or_stage(tmp_path / "stages" / "warm") == tmp_path / "stages" / "warm"


def test_stages_go_on_with_the_one_of_the_same_name(make: Make, on_trl: Path) -> None:
    config = make("slime", "other-stages", stages=[{"name": "warm"}, {"name": "hard"}])
    with pytest.raises(ConfigError, match=r"none is named 'trl'.*warm, hard"):
        train(config, continue_from=on_trl)
    assert not config.output_dir.exists()


def test_continuing_and_resuming_exclude_each_other(make: Make, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(dump_config(make("trl", "unused")))
    words = ["train", str(tmp_path / "c.yaml"), "--resume", "--continue-from", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "is resumed with --resume alone" in result.output
