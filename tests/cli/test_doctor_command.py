from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from retrain.cli import doctor_machine
from retrain.cli.doctor_packages import FEATURES, INSTALL, find_features, find_packages
from retrain.cli.main import app

ROOT = Path(__file__).parents[2]


def doctor(folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run `retrain doctor --json` in a process of its own, with folders in front of the path."""
    return subprocess.run(
        [sys.executable, "-m", "retrain", "doctor", "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
    )


def package(folder: Path, name: str, **files: str) -> Path:
    (folder / name).mkdir(parents=True)
    for file, text in {"__init__": "", **files}.items():
        (folder / name / f"{file}.py").write_text(text)
    return folder


def distribution(folder: Path, name: str, version: str) -> Path:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def test_this_environment_can_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "yes  train with backend: trl" in lines
    assert any(line.startswith("torch ") and "missing" not in line for line in lines)


@pytest.mark.slow
def test_the_diagnosis_is_one_json_document(tmp_path: Path) -> None:
    result = doctor(tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["can_train"] and document["machine"]["writable"]
    assert document["modules"] == {"bridges": None, "backends": None}
    assert [backend["name"] for backend in document["backends"]][-1] == "trl"
    assert {found["name"] for found in document["packages"]} == set(INSTALL)


def test_an_extra_that_is_named_brings_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name, command in INSTALL.items():
        if "retrain[" in command:
            extra = command.partition("[")[2].partition("]")[0]
            assert any(needed.startswith(name) for needed in extras[extra]), name
    assert {name for needed in FEATURES.values() for name in needed} <= set(INSTALL)


@pytest.mark.parametrize("name", ["bridges", "backends"])
def test_somebody_else_s_package_of_our_name_is_named(tmp_path: Path, name: str) -> None:
    other = package(tmp_path / "other", name)
    result = doctor(tmp_path, other)
    assert (result.returncode, result.stderr) == (1, "")
    document = json.loads(result.stdout)
    assert f"resolves to {other / name}" in document["modules"][name]
    assert str(other) in document["modules"][name].partition("PYTHONPATH")[0]
    assert (document["can_train"], document["backends"]) == (False, [])


def test_a_torch_that_cannot_be_imported_is_no_torch(tmp_path: Path) -> None:
    reason = "libcudart.so.13: cannot open shared object file"
    broken = package(tmp_path / "broken", "torch")
    (broken / "torch" / "__init__.py").write_text(f"raise ImportError({reason!r})\n")
    result = doctor(tmp_path, broken)
    assert (result.returncode, result.stderr) == (1, "")
    document = json.loads(result.stdout)
    assert reason in document["backends"][-1]["problems"][0]
    (torch,) = (found for found in document["packages"] if found["name"] == "torch")
    assert torch["version"] is None and reason in torch["note"]


def test_the_pypi_package_called_slime_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = distribution(package(tmp_path / "other", "slime"), "slime", "0.1.2")
    monkeypatch.syspath_prepend(other)
    (found,) = (p for p in find_packages({}) if p.name == "slime")
    assert found.version is None
    assert "slime 0.1.2 is another package of that name" in found.note
    assert found.install.startswith("pip uninstall --yes slime && git clone https://")


@pytest.mark.parametrize("installed", [True, False])
def test_the_real_slime_is_found_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    source = package(tmp_path, "slime")
    (source / "slime" / "__init__.py").write_text("raise AssertionError('imported')\n")
    (source / "slime" / "utils").mkdir()
    (source / "slime" / "utils" / "types.py").touch()
    if installed:
        distribution(tmp_path, "slime", "0.3.1")
    monkeypatch.syspath_prepend(source)
    (found,) = (p for p in find_packages({}) if p.name == "slime")
    assert (found.version, found.note) == ("0.3.1" if installed else "from source", "")


def test_what_is_missing_comes_with_its_command() -> None:
    packages = find_packages({"peft": "broken", "bitsandbytes": "broken"})
    features = {feature.name: feature for feature in find_features(packages)}
    quantised = features["quantised models (model.peft.bits)"]
    assert not quantised.works
    assert quantised.fix == ("pip install 'retrain[trl]'", "pip install 'retrain[qlora]'")
    assert features["rollout and eval in this process"].works


def test_a_driver_without_a_gpu_for_torch_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = package(tmp_path / "fake", "torch")
    text = "import types\nversion = types.SimpleNamespace(cuda={!r})\n"
    text += "cuda = types.SimpleNamespace(device_count=lambda: 0)\n"
    driver = tmp_path / "driver"
    driver.touch()
    monkeypatch.setattr(doctor_machine, "_DRIVER", driver)
    monkeypatch.setenv("PYTHONPATH", str(torch))
    for cuda, words in ((None, "reinstall it for CUDA"), ("13.0", "CUDA_VISIBLE_DEVICES")):
        (torch / "torch" / "__init__.py").write_text(text.format(cuda))
        assert words in doctor_machine.find_machine().gpu_fault


def test_a_folder_that_cannot_be_written_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.isdir("/proc/self"):
        pytest.skip("needs a folder in which nobody may write")
    monkeypatch.chdir("/proc/self")
    result = CliRunner().invoke(app, ["doctor"])
    assert "the working directory is read-only; set output_dir elsewhere" in result.stdout
