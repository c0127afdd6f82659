"""A resume with another model than the checkpoint's: one error that names both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from backends.trl.backend import TRLBackend
from backends.trl.checkpoints import newest_checkpoint
from retrain.errors import ConfigError

pytestmark = pytest.mark.slow


def trained(config: Any, **options: Any) -> Any:
    made = config(num_iterations=1, save_interval=1, **options)
    backend = TRLBackend()
    backend.train(backend.plan(made))
    return made


def resumed_with(made: Any, model: Path) -> str:
    """The refusal of a longer run with another model; nothing of the run may have moved."""
    changed = made.model.model_copy(update={"name_or_path": str(model)})
    hyper = made.algorithm.hyperparameters.model_copy(update={"num_iterations": 2})
    algorithm = made.algorithm.model_copy(update={"hyperparameters": hyper})
    other = made.model_copy(update={"model": changed, "algorithm": algorithm})
    backend = TRLBackend()
    with pytest.raises(ConfigError) as refusal:
        backend.train(backend.plan(other), resume=True)
    checkpoint = newest_checkpoint(made.output_dir / "checkpoints")
    assert checkpoint is not None
    assert f"{checkpoint.path}: is of another model than model.name_or_path ({model})" in str(
        refusal.value
    )
    assert (made.output_dir / "model" / "config.json").is_file(), "nothing is set aside"
    return str(refusal.value)


def copied(made: Any, to: Path) -> Path:
    shutil.copytree(made.model.name_or_path, to)
    return to


def rebuilt(model: Path, kind: str, **changes: Any) -> Path:
    """The folder with a model of other sizes or another architecture, and the same tokenizer."""
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = json.loads((model / "config.json").read_text())
    del settings["architectures"]
    sizes = {name: value for name, value in settings.items() if name != "model_type"}
    made = AutoConfig.for_model(kind, **{**sizes, **changes})
    (model / "model.safetensors").unlink()
    AutoModelForCausalLM.from_config(made).save_pretrained(model)
    return model


def test_other_sizes_and_architectures_are_refused(config: Any, tmp_path: Path) -> None:
    made = trained(config)
    kind = json.loads((Path(made.model.name_or_path) / "config.json").read_text())["model_type"]
    wide = rebuilt(copied(made, tmp_path / "wide"), kind, intermediate_size=96)
    message = resumed_with(made, wide)
    assert "its intermediate_size is 384, the model's 96" in message
    llama = rebuilt(copied(made, tmp_path / "llama"), "llama")
    assert f"its model_type is {kind}, the model's llama" in resumed_with(made, llama)


def test_another_vocabulary_of_the_same_size_is_refused(config: Any, tmp_path: Path) -> None:
    made = trained(config)
    model = copied(made, tmp_path / "other")
    settings = json.loads((model / "tokenizer.json").read_text())
    vocabulary = settings["model"]["vocab"]
    vocabulary["7"], vocabulary["8"] = vocabulary["8"], vocabulary["7"]
    (model / "tokenizer.json").write_text(json.dumps(settings))
    assert "in its vocabulary and has id" in resumed_with(made, model)


def test_an_adapter_of_another_base_is_refused(config: Any, tmp_path: Path) -> None:
    plain = config()
    model = {**plain.model.model_dump(), "peft": {"r": 4}}
    made = trained(config, sections={"model": model})
    kind = json.loads((Path(made.model.name_or_path) / "config.json").read_text())["model_type"]
    deep = rebuilt(copied(made, tmp_path / "deep"), kind, num_hidden_layers=3, layer_types=None)
    assert "its num_hidden_layers is 2, the model's 3" in resumed_with(made, deep)


def test_the_same_model_in_another_place_is_accepted(config: Any, tmp_path: Path) -> None:
    made = trained(config)
    moved = made.model.model_copy(update={"name_or_path": str(copied(made, tmp_path / "moved"))})
    backend = TRLBackend()
    result = backend.train(backend.plan(made.model_copy(update={"model": moved})), resume=True)
    assert result.iterations == 1
