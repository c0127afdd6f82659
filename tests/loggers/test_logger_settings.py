"""The `loggers:` section: every way of writing it, and what is wrong with the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from logged_runs import config
from ruamel.yaml import YAML

from retrain.config import LoggersConfig, dump_config, load_config
from retrain.errors import ConfigError

PAGE = (Path(__file__).parents[2] / "docs" / "loggers.md").read_text(encoding="utf-8")
WANDB = {"project": "retrain", "entity": None, "tags": (), "mode": "auto"}
TRACKIO = {"project": "retrain", "space_id": None}


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, {}),
        ("tensorboard", {"tensorboard": {}}),
        (["wandb", "tensorboard"], {"tensorboard": {}, "wandb": WANDB}),
        ({"wandb": True, "trackio": False}, {"wandb": WANDB}),
        ({"tensorboard": False, "trackio": {}}, {"trackio": TRACKIO}),
        ({"wandb": {"mode": "offline"}}, {"wandb": {**WANDB, "mode": "offline"}}),
        (["a.b:C"], {"a.b:C": {}}),
        ({"custom": {"a.b:C": {"x": 1}}}, {"a.b:C": {"x": 1}}),
    ],
)
def test_loggers_are_chosen_by_name_with_or_without_settings(given: Any, chosen: Any) -> None:
    assert LoggersConfig.model_validate(given).chosen() == chosen


def test_the_page_s_examples_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    chosen = [LoggersConfig.model_validate(YAML(typ="safe").load(b)["loggers"]) for b in blocks]
    assert [len(loggers.chosen()) for loggers in chosen] == [1, 3, 4]


def test_what_the_run_folder_keeps_loads_again(tmp_path: Path) -> None:
    written = config(tmp_path / "run", {"tensorboard": True, "wandb": {"tags": ["a"]}})
    (tmp_path / "c.yaml").write_text(dump_config(written))
    assert load_config(tmp_path / "c.yaml", (), None).loggers == written.loggers


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("loggers: tensorbord", "tensorbord"),
        ("loggers: {wandb: {projet: x}}", "project"),
        ("loggers: {wandb: {mode: online!}}", "mode"),
        ("loggers: [{wandb: 1}]", "loggers"),
        ("loggers: 3", "loggers"),
    ],
)
def test_a_wrong_section_names_the_key(given: str, said: str, tmp_path: Path) -> None:
    text = dump_config(config(tmp_path / "run", {}))
    kept = re.sub(r"^loggers:\n(?:  .*\n)*", "", text, flags=re.MULTILINE)
    (tmp_path / "c.yaml").write_text(kept + given + "\n")
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "c.yaml", (), None)
    assert said in str(raised.value) and "loggers" in str(raised.value)
