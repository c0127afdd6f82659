"""`retrain parity` over a file for each kind of environment: the same rows on TRL and on slime.

The configurations lie in `environments/`, and name sources that nobody changed for retrain.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model
from slime_source import named_slime
from typer.testing import CliRunner

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")

from retrain.cli.main import app

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
CONFIGURATIONS = HERE / "environments"
SERVER = HERE.parent / "environment" / "mcp_servers" / "fastmcp_server.py"
NEEDS = {
    "gymnasium": ("gymnasium", "retrain[gymnasium]"),
    "mcp": ("fastmcp", "retrain[mcp]"),
    "textarena": ("textarena", "retrain[textarena]"),
    "textarena_self_play": ("textarena", "retrain[textarena]"),
    "skyrl_gym": ("skyrl_gym", "retrain[skyrl-gym]"),
    "gem": ("gem", "retrain[gem]"),
    "reasoning_gym": ("reasoning_gym", "retrain[reasoning-gym]"),
    "openenv": ("openenv", "openenv"),
    "verifiers": ("verifiers", "verifiers>=0.4"),
}
"""The package that an environment needs, and what installs it."""

IN_CI = ("calculator", "trl_style", "gymnasium", "mcp", "several_agents")
ALL = sorted(path.stem for path in CONFIGURATIONS.glob("*.yaml"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calculator example's own model, made by its own script."""
    folder = make_demo_model(tmp_path_factory.mktemp("environments") / "model")
    for file, key in (
        ("config", "max_position_embeddings"),
        ("tokenizer_config", "model_max_length"),
    ):
        path = folder / f"{file}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: 4096}))
    return folder


@pytest.fixture(
    params=[name if name in IN_CI else pytest.param(name, marks=pytest.mark.soak) for name in ALL]
)
def command(
    request: pytest.FixtureRequest, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """`retrain parity` over one configuration, in a world that has what it names."""
    name = request.param
    package, install = NEEDS.get(name, ("retrain", ""))
    if find_spec(package) is None:
        pytest.skip(f"needs {package}: pip install '{install}'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(HERE.parent / "environment" / "adapters"))
    with parity(name, model, tmp_path) as words:
        yield words


@contextmanager
def parity(name: str, model: Path, folder: Path) -> Iterator[list[str]]:
    """The command over a copy of a configuration, and the server that it needs."""
    config = shutil.copy(CONFIGURATIONS / f"{name}.yaml", folder)
    words = ["parity", str(config), "--json", "--set", f"model.name_or_path={model}"]
    where = "environment.env_specific_config"
    if name == "mcp":
        yield [*words, "--set", f"{where}.servers.points.args=[{SERVER}]"]
    elif name == "openenv":
        from openenv_world import APPS, serving

        with serving(APPS["guess"]()) as url:
            yield [*words, "--set", f"{where}.base_url={url}"]
    else:
        yield words


def samples_of(command: list[str], slime: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, [*command, "--backend", "trl", "--backend", "slime"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [entry["backend"] for entry in report["backends"]] == ["trl", "slime"]
    assert slime in str(report["backends"][1])
    samples: list[dict[str, Any]] = report["samples"]
    assert len(samples) == report["tape"]["rows"] >= 8
    assert report["tape"]["trained"] > 8
    return samples


def test_samples_are_identical_on_both_backends(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    for sample in samples_of(command, "port of slime"):
        assert len(set(sample["sha256"].values())) == 1
        assert sample["sha256"].keys() == {"tape", "trl", "slime"}


@pytest.mark.slime
def test_samples_are_identical_on_slime_s_own_code(command: list[str]) -> None:
    named_slime()
    for sample in samples_of(command, "slime's own conversion"):
        assert len(set(sample["sha256"].values())) == 1


@pytest.mark.soak
def test_a_harness_that_forgets_gives_segments_that_slime_trains(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("verifiers.v1", reason="needs verifiers: pip install 'verifiers>=0.4'")
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(HERE.parent / "environment" / "adapters"))
    spell = '<tool_call>\n{"name": "spell", "arguments": {"word": "sea"}}\n</tool_call>'
    given = [
        "environment.env_specific_config.rewrites=true",
        f"rollout.engine.texts={json.dumps([spell, 's', 'e'])}",
        *(
            f"{where}.env.player.harness.forgets=true"
            for where in ("environment.env_specific_config", "prompt_source.source_config")
        ),
    ]
    with parity("verifiers", model, tmp_path) as words:
        words += [word for text in given for word in ("--set", text)]
        for_slime = [*words, "--set", "algorithm.backend=slime", "--backend", "slime"]
        result = CliRunner().invoke(app, for_slime)
        refused = CliRunner().invoke(app, [*words, "--backend", "trl"])

    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["tape"]["rows"] > 8
    assert report["equal"]
    assert refused.exit_code == 1
    assert "rewrites its history" in json.loads(refused.stdout)["backends"][0]["refused"]
