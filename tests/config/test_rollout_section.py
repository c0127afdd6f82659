"""The `rollout:` section and the prompt sources: what they take, and what they say otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrain.config import RolloutConfig, RunConfig, dump_config, load_config
from retrain.errors import ConfigError

Write = Callable[..., Path]

ALGORITHM = "algorithm: {name: grpo, backend: BACKEND, hyperparameters: {num_iterations: 1}}\n"


def load(
    write: Write, rollout: str, *overrides: str, backend: str = "trl", base: str | None = None
) -> RunConfig:
    text = ALGORITHM.replace("BACKEND", backend) + f"rollout: {rollout}\n"
    return load_config(write(text) if base is None else write(text, base=base), overrides)


def error_of(write: Write, rollout: str, *overrides: str, backend: str = "trl") -> str:
    with pytest.raises(ConfigError) as raised:
        load(write, rollout, *overrides, backend=backend)
    return str(raised.value)


def test_the_defaults_play_what_is_needed_and_drop_nothing(write: Write) -> None:
    rollout = load(write, "{}").rollout
    assert (rollout.over_sampling_factor, rollout.filter, rollout.asynchronous) == (
        1.0,
        None,
        False,
    )
    assert (rollout.partial, rollout.buffer_filter) == (True, "pop_first")
    assert (rollout.max_staleness, rollout.mask_stale_tokens) == (None, False)
    assert (rollout.filter_fallback, rollout.max_refills) == (False, 8.0)
    assert rollout.executor.type == "local"


FULL = (
    "{executor: {type: ray, workers: 4, cpus: 0.5, resources: {sandbox: 1}, address: auto}, "
    "over_sampling_factor: 1.5, filter: {all_of: [check_min_reward, {not: my.filters:easy}]}, "
    "filter_fallback: true, max_refills: 2.5, buffer_filter: oldest_first, max_staleness: 2, "
    "mask_stale_tokens: true, asynchronous: true}"
)


@pytest.mark.parametrize("rollout", ["{}", FULL, "{executor: process}", "{filter: a}"])
def test_a_resolved_file_loads_as_the_same(write: Write, rollout: str) -> None:
    config = load(write, rollout)
    again = load_config(write(dump_config(config), base="", name="copy.yaml"))
    assert again == config
    assert dump_config(again) == dump_config(config)


@pytest.mark.parametrize("spelling", ["ray", "{type: ray}"])
def test_an_executor_may_be_its_type_alone(write: Write, spelling: str) -> None:
    assert load(write, f"{{executor: {spelling}}}").rollout.executor.type == "ray"


def test_overrides_lay_an_executors_settings_over_its_type(write: Write) -> None:
    workers = "rollout.executor.workers=3"
    for text in ("{executor: ray}", "{executor: {type: ray, workers: 2}}"):
        executor = load(write, text, workers).rollout.executor
        assert (executor.type, executor.workers) == ("ray", 3)
    changed = load(write, "{executor: {type: ray, cpus: 2}}", "rollout.executor=process")
    assert (changed.rollout.executor.type, changed.rollout.executor.cpus) == ("process", 1.0)
    replaced = load(write, "{executor: {type: ray, cpus: 2}}", "rollout.executor.type=process")
    assert replaced.rollout.executor == changed.rollout.executor


def test_a_stage_may_run_its_environments_elsewhere(write: Write) -> None:
    stages = "stages:\n  - {name: one, rollout: {executor: {type: process, workers: 2}}}\n"
    text = ALGORITHM.replace("BACKEND", "trl")
    config = load_config(write(text + "rollout: {executor: {type: ray, cpus: 4}}\n" + stages))
    ((_, stage),) = config.stage_configs()
    assert stage.rollout.executor.model_dump(exclude_defaults=True) == (
        {"type": "process", "workers": 2}
    )


@pytest.mark.parametrize(
    ("rollout", "message"),
    [
        ("{executor: rya}", "executor.type: expected 'local', 'process' or 'ray', got 'rya'; did"),
        ("{executor: 3}", "rollout.executor: expected a mapping"),
        ("{executor: {workers: 2}}", "workers: means nothing to type local; it is for process and"),
        ("{executor: {type: process, cpus: 2}}", "cpus: means nothing to type process; it is for"),
        ("{executor: {type: ray, workers: 0}}", "workers: expected more than 0, got 0"),
        ("{executor: {type: ray, resources: {a: -1}}}", "resources.a: expected more than 0.0"),
        ("{executor: {type: ray, nodes: 2}}", "rollout.executor.nodes: unknown key"),
        ("{filter: 3}", "rollout.filter: expected a name, or a mapping, got 3"),
        ("{filter: {}}", "rollout.filter: expected a name, or a mapping, got {}"),
        ("{filter: {name: a, when: .inf}}", "rollout.filter.when: expected a finite number"),
        ("{over_sampling_factor: 0.9}", "over_sampling_factor: expected at least 1.0, got 0.9"),
        ("{over_sampling: 2}", "unknown key; did you mean 'over_sampling_factor'?"),
        ("{partial: yes}", "expected true or false, got 'yes'; in YAML 1.2 that is text"),
        ("{max_staleness: -1}", "max_staleness: expected at least 0"),
        ("{max_refills: 2}", "max_refills: is about groups that a filter drops; set rollout.filt"),
        ("{filter_fallback: true}", "filter_fallback: is about groups that a filter drops"),
        ("{partial: false, buffer_filter: oldest_first}", "buffer_filter: chooses among half-pl"),
        ("{asynchronous: true, max_staleness: 0}", "max_staleness: 0 allows no older weights"),
    ],
)
def test_what_does_not_fit_is_named(write: Write, rollout: str, message: str) -> None:
    error = error_of(write, rollout)
    assert message in error
    assert "line " in error and "pydantic" not in error


def test_every_fault_of_the_section_is_told_at_once(write: Write) -> None:
    error = error_of(write, "{partial: false, buffer_filter: oldest_first, max_refills: 2}")
    assert "2 problems" in error
    assert "buffer_filter: chooses" in error and "max_refills: is about" in error


def test_slimes_word_for_asynchronous_is_the_same_key(write: Write) -> None:
    option = "algorithm.hyperparameters.slime_train_async=true"
    for overrides in (
        ("rollout.asynchronous=true",),
        (option,),
        (option, "rollout.asynchronous=true"),
    ):
        assert load(write, "{}", *overrides, backend="slime").asynchronous
    assert not load(write, "{}", option, backend="trl").asynchronous
    assert not load(write, "{}", backend="slime").asynchronous


def test_slimes_word_for_asynchronous_cannot_contradict_ours(write: Write) -> None:
    off = "algorithm.hyperparameters.slime_train_async=false"
    error = error_of(write, "{asynchronous: true}", off, backend="slime")
    assert "slime_train_async: false contradicts rollout.asynchronous: true" in error
    error = error_of(write, "{max_staleness: 0}", off.replace("false", "true"), backend="slime")
    assert "rollout.max_staleness: 0 allows no older weights" in error


def test_the_section_can_be_made_by_hand() -> None:
    made = RolloutConfig.model_validate({"executor": "process", "filter": "check_any_success"})
    assert (made.executor.type, made.filter) == ("process", "check_any_success")


BASE = """\
experiment_name: calculator
model: {name_or_path: m}
environment: {type: calculator}
"""


def source(write: Write, prompt_source: str, *overrides: str, more: str = "") -> dict[str, Any]:
    text = f"prompt_source: {prompt_source}\n{more}" + ALGORITHM.replace("BACKEND", "trl")
    return load_config(write(text, base=BASE), overrides).prompt_source.source_config


def test_a_dataset_is_a_name_or_a_path(write: Write, tmp_path: Path) -> None:
    name = source(write, "{type: dataset, source_config: {path: openai/gsm8k, name: main}}")
    assert (name["path"], name["name"], name["split"]) == ("openai/gsm8k", "main", "train")
    (tmp_path / "data").mkdir()
    for written in ("data", "./data"):
        found = source(write, f"{{type: dataset, source_config: {{path: {written}}}}}")
        assert found["path"] == str(tmp_path / "data")
    said = source(write, "{type: dataset, source_config: {path: ./absent.parquet}}")
    assert said["path"] == str(tmp_path / "absent.parquet")
    file = source(write, "{type: jsonl, source_config: {path: absent.jsonl}}")
    assert file["path"] == str(tmp_path / "absent.jsonl")


def test_a_stages_dataset_inherits_its_type(write: Write) -> None:
    text = "prompt_source: {type: dataset, source_config: {path: one/easy}}\nstages:\n"
    text += "  - {name: a}\n  - {name: b, prompt_source: {source_config: {path: one/hard}}}\n"
    config = load_config(write(text + ALGORITHM.replace("BACKEND", "trl"), base=BASE))
    paths = [made.prompt_source.source_config["path"] for _, made in config.stage_configs()]
    assert paths == ["one/easy", "one/hard"]


def test_a_dataset_named_on_the_command_line_stays_a_name(write: Write) -> None:
    override = "prompt_source.source_config.path=openai/math"
    found = source(write, "{type: dataset, source_config: {path: openai/gsm8k}}", override)
    assert found["path"] == "openai/math"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{}", "source_config.path: is missing; it is required: a dataset on the Hugging Face"),
        ("{path: a, subset: main}", "source_config.subset: unknown key"),
        ("{path: a, limit: 0}", "source_config.limit: expected more than 0"),
        ("{path: a, columns: level}", "source_config.columns: expected a list"),
        ("{path: a, split: 3}", "source_config.split: expected text, got 3"),
    ],
)
def test_a_datasets_settings_are_checked(write: Write, settings: str, message: str) -> None:
    with pytest.raises(ConfigError, match="prompt_source") as raised:
        source(write, f"{{type: dataset, source_config: {settings}}}")
    assert message in str(raised.value)


def test_an_environments_settings_are_its_own(write: Write) -> None:
    found = source(write, "{type: environment, source_config: {count: 5, kind: [a]}}")
    assert found == {"count": 5, "kind": ["a"]}
