"""Backends that refuse, that are not installed, and that somebody else brings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from backends.base import Plan, Problem
from backends.registry import BACKENDS
from retrain.cli.main import app
from retrain.comparison import compare
from retrain.config import RunConfig
from retrain.errors import MissingDependency

SECRET = "w4ndb-secret-of-somebody"


class Abacus:
    """Somebody's backend: it knows no default, and refuses to be fast."""

    name = "abacus"

    def check(self) -> list[Problem]:
        return []

    def plan(self, config: RunConfig) -> Plan:
        hyper = config.algorithm.hyperparameters
        problems = (Problem("model.peft", "an abacus has no adapters"),)
        arguments = {"speed": hyper.learning_rate, "beads": hyper.prefixed("abacus").get("beads")}
        return Plan("abacus", config, "abacus.Count", arguments, problems=problems)

    train = export = None


class Gone:
    """A backend whose framework is not installed."""

    name = "trl"

    def plan(self, config: RunConfig) -> Plan:
        raise MissingDependency("trl is not installed; pip install 'retrain[trl]'")


@pytest.fixture
def abacus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS._objects, "abacus", Abacus)


@pytest.fixture
def without_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS._objects, "trl", Gone)


def run(document: Mapping[str, Any], folder: Path, *words: str) -> Any:
    (folder / "c.yaml").write_text(json.dumps(document))
    return CliRunner().invoke(app, ["plan", str(folder / "c.yaml"), "--compare", *words])


def test_a_missing_framework_says_so_and_is_named_by_the_documentation(
    document: Callable[..., Any], tmp_path: Path, without_trl: None
) -> None:
    result = run(document(), tmp_path)
    assert result.exit_code == 0, result.output
    assert "trl    cannot be asked" in result.stdout and "retrain[trl]" in result.stdout
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["clip_eps_low", "0.2", "epsilon", "eps_clip", "clip_low"] in lines
    assert not Path(document()["output_dir"]).exists()


def test_a_refusal_stands_in_its_column(make_config: Callable[..., Any], without_trl: None) -> None:
    config = make_config(slime_no_such_option=1)
    column = compare(config, ("slime",)).columns[0]
    assert column.plan is None and "slime has no option 'no_such_option'" in column.refused


def test_what_cannot_be_honoured_is_listed_with_its_reason(
    document: Callable[..., Any], tmp_path: Path, without_trl: None
) -> None:
    wanted = document()
    wanted["model"]["peft"] = {"r": 8}
    result = run(wanted, tmp_path)
    text = " ".join(result.stdout.split())
    assert "slime error: model.peft: slime trains all of a model" in text


def test_a_third_party_s_backend_takes_part(
    document: Callable[..., Any], tmp_path: Path, without_trl: None, abacus: None
) -> None:
    wanted = document(learning_rate=0.5, abacus_beads=7)
    wanted["algorithm"]["backend"] = "abacus"
    result = run(wanted, tmp_path, "--json")
    assert result.exit_code == 0, result.output
    (stage,) = json.loads(result.stdout)["stages"]
    assert [side["backend"] for side in stage["backends"]] == ["abacus", "slime", "torch", "trl"]
    keys = {row["key"]: row for row in stage["keys"]}
    assert keys["learning_rate"]["told"]["abacus"]["told"] == [
        {"option": "speed", "value": 0.5, "sent": True, "default": None}
    ]
    assert keys["learning_rate"]["standing"] == "same"
    assert keys["abacus_beads"]["told"]["abacus"]["told"][0]["option"] == "beads"
    assert stage["backends"][0]["problems"][0]["message"] == "an abacus has no adapters"


def test_no_credential_is_shown(
    document: Callable[..., Any], tmp_path: Path, without_trl: None
) -> None:
    wanted = document(slime_wandb_key=SECRET)
    for words in ((), ("--json",)):
        result = run(wanted, tmp_path, *words)
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output


def test_every_stage_is_compared_and_a_narrow_terminal_is_enough(
    document: Callable[..., Any],
    tmp_path: Path,
    without_trl: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wanted = document()
    wanted["stages"] = [{"name": "one"}, {"name": "two", "algorithm": {"backend": "slime"}}]
    result = run(wanted, tmp_path)
    assert "== compared, stage one: trl, slime, torch ==" in result.stdout
    assert "== compared, stage two: slime, torch, trl ==" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
