from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.slime.laptop.checkouts import Checkouts, find_checkouts
from retrain.config import RunConfig
from retrain.errors import ConfigError

BUFFER = "megatron/core/distributed/param_and_grad_buffer.py"
LAYER = "megatron/core/transformer/transformer_layer.py"

MakeConfig = Callable[..., RunConfig]


@pytest.fixture
def named(tmp_path: Path) -> MakeConfig:
    def make(**section: str) -> RunConfig:
        return RunConfig.model_validate(
            {
                "experiment_name": "checkouts",
                "output_dir": str(tmp_path / "run"),
                "model": {"name_or_path": "model"},
                "environment": {"type": "calculator"},
                "prompt_source": {"type": "list", "source_config": {"items": ["1+1"]}},
                "slime_laptop": section,
                "algorithm": {
                    "name": "grpo",
                    "backend": "slime",
                    "hyperparameters": {"num_iterations": 1},
                },
            }
        )

    return make


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def slime(tmp_path: Path) -> Path:
    return write(tmp_path / "slime", {"train.py": "", "slime/ray/rollout.py": ""})


@pytest.fixture
def megatron(tmp_path: Path) -> Path:
    files = {
        "megatron/training/training.py": "",
        BUFFER: "disable_grad_buffers_cpu_backup = False",
        LAYER: "def _use_sglang_fused_residual_rmsnorm(): ...",
    }
    return write(tmp_path / "megatron", files)


def test_the_configuration_names_them(named: MakeConfig, slime: Path, megatron: Path) -> None:
    config = named(slime=str(slime), megatron=str(megatron))
    assert find_checkouts(config, {"RETRAIN_SLIME": "/elsewhere"}) == Checkouts(slime, megatron)


def test_else_the_environment_does(named: MakeConfig, slime: Path, megatron: Path) -> None:
    environment = {"RETRAIN_SLIME": str(slime), "RETRAIN_MEGATRON": str(megatron)}
    assert find_checkouts(named(), environment) == Checkouts(slime, megatron)


def test_one_of_them_named_nowhere_is_an_error(named: MakeConfig, slime: Path) -> None:
    with pytest.raises(ConfigError, match=r"slime_laptop\.slime: is not set, nor is \$RETRAIN_SL"):
        find_checkouts(named(), {})
    with pytest.raises(ConfigError, match=r"slime_laptop\.megatron: is not set, nor is \$RETRA"):
        find_checkouts(named(slime=str(slime)), {})


def test_another_folder_is_no_slime(named: MakeConfig, megatron: Path, tmp_path: Path) -> None:
    config = named(slime=str(tmp_path / "nothing"), megatron=str(megatron))
    with pytest.raises(ConfigError, match=r"nothing is no slime checkout \(no train\.py\)"):
        find_checkouts(config, {})


def test_the_package_of_that_name_on_pypi_is_told_apart(
    named: MakeConfig, megatron: Path, tmp_path: Path
) -> None:
    installed = write(tmp_path / "site-packages", {"slime/__init__.py": ""})
    config = named(slime=str(installed), megatron=str(megatron))
    with pytest.raises(ConfigError, match=r"on PyPI is another program \(mixed-effects models\)"):
        find_checkouts(config, {})


def test_megatron_core_is_not_enough(named: MakeConfig, slime: Path, tmp_path: Path) -> None:
    core = write(tmp_path / "site-packages", {"megatron/core/__init__.py": ""})
    config = named(slime=str(slime), megatron=str(core))
    with pytest.raises(ConfigError, match=r"no Megatron-LM checkout \(no megatron/training"):
        find_checkouts(config, {})


@pytest.mark.parametrize(
    ("file", "patch"),
    [(BUFFER, r"megatron\.patch"), (LAYER, r"megatron-sglang-aligned\.patch")],
)
def test_a_patch_that_is_not_applied_is_named(
    named: MakeConfig, slime: Path, megatron: Path, file: str, patch: str
) -> None:
    (megatron / file).write_text("as published")
    config = named(slime=str(slime), megatron=str(megatron))
    with pytest.raises(ConfigError, match=rf"lacks slime's patch {patch}; .* git apply {slime}"):
        find_checkouts(config, {})


def test_another_commit_of_slime_is_warned_of(
    named: MakeConfig, slime: Path, megatron: Path
) -> None:
    git = ["git", "-C", str(slime), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "another"], check=True)
    config = named(slime=str(slime), megatron=str(megatron))
    with pytest.warns(UserWarning, match="tested is 624b824a"):
        find_checkouts(config, {})
