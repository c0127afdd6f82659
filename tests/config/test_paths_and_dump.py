import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from retrain.config import RunConfig, dump_config, is_credential, load_config

Write = Callable[..., Path]

FULL = """\
algorithm:
  name: grpo
  hyperparameters: {num_iterations: 3, epsilon: 0.3, trl_temperature: 0.5, slime_wandb_key: w4ndb}
rollout: {failure: {engine: retry}, max_turns: 4, episode_timeout: 9}
rendering: {stop_token_ids: [1, 2]}
reward_setup:
  step_reward_configs: {exact_match: {weight: 0.5, verifiers: [a, b]}}
  rollout_reward_configs: {"my.rewards:good": {on_failure: value, value: -1}}
evaluation: {prompt_source: {type: jsonl, source_config: {path: held_out.jsonl}}, interval: 2}
slime_laptop: {slime: ../slime, megatron: /opt/megatron}
"""
STAGES = """\
stages:
  - {name: sft, algorithm: {name: sft, hyperparameters: {num_epochs: 1}}}
  - {name: rl, algorithm: {hyperparameters: {num_generations: 4, trl_temperature: 0.9}}}
"""


def reload(write: Write, text: str) -> tuple[object, object]:
    config = load_config(write(text))
    return config, load_config(write(dump_config(config), base="", name="copy.yaml"))


@pytest.mark.parametrize("text", [FULL, FULL + STAGES])
def test_a_dumped_configuration_loads_as_the_same(write: Write, text: str) -> None:
    text = text.replace(", slime_wandb_key: w4ndb", "")
    config, again = reload(write, text)
    assert again == config
    assert again.stage_configs() == config.stage_configs()
    assert dump_config(again) == dump_config(config)


def test_a_dumped_sft_configuration_loads_as_the_same(write: Write) -> None:
    config, again = reload(write, "algorithm: {name: sft, hyperparameters: {num_epochs: 1}}\n")
    assert again == config


def test_every_default_is_written_out(write: Write) -> None:
    text = dump_config(load_config(write()))
    assert "global_batch_size: 64" in text
    assert "max_failure_rate: 0.5" in text
    assert re.search(r"learning_rate: 1(\.0)?e-0?6\n", text)


def test_no_credential_is_written(write: Write) -> None:
    secrets = "environment: {type: e, env_specific_config: {hf_token: h1dden, max_tokens: 7}}\n"
    path = write(
        secrets + FULL,
        base="experiment_name: x\nmodel: {name_or_path: m}\n"
        "prompt_source: {type: list, source_config: {items: [a]}}\n",
    )
    text = dump_config(load_config(path))
    assert "h1dden" not in text and "w4ndb" not in text
    assert "hf_token: <redacted>" in text
    assert "max_tokens: 7" in text
    assert "- 1\n" in text.split("stop_token_ids:")[1]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(min_codepoint=32, codec="utf-8")).filter(
                lambda key: not is_credential(key)
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.from_regex(r"x[a-z ]{0,8}", fullmatch=True), json_values, max_size=3))
@example({"x": {"tokens": 0}})
def test_any_json_settings_survive_the_round_trip(write: Write, values: dict[str, object]) -> None:
    config = load_config(write())
    environment = config.environment.model_copy(update={"env_specific_config": values})
    config = config.model_copy(update={"environment": environment})
    again = load_config(write(dump_config(config), base="", name="copy.yaml"))
    assert again.environment.env_specific_config == values


def test_paths_of_the_file_are_relative_to_its_folder(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights").mkdir()
    path = write(FULL)
    monkeypatch.chdir("/")
    config = load_config(path, ["model.name_or_path=some/model"])
    assert config.base_dir == tmp_path
    assert config.evaluation is not None and config.slime_laptop is not None
    held_out = config.evaluation.prompt_source.source_config["path"]
    assert held_out == str(tmp_path / "held_out.jsonl")
    assert config.slime_laptop.slime == str(tmp_path.parent / "slime")
    assert config.slime_laptop.megatron == "/opt/megatron"
    assert config.output_dir == Path("runs/calculator")


@pytest.mark.parametrize(
    ("name", "resolved"),
    [
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("weights", "{folder}/weights"),
        ("./not-yet", "{folder}/not-yet"),
        ("/opt/weights", "/opt/weights"),
    ],
)
def test_a_models_name_is_a_path_when_it_says_so_or_exists(
    write: Write, tmp_path: Path, name: str, resolved: str
) -> None:
    (tmp_path / "weights").mkdir()
    base = (
        f"experiment_name: x\nmodel: {{name_or_path: {name}}}\nenvironment: {{type: e}}\n"
        "prompt_source: {type: list, source_config: {items: [a]}}\n"
    )
    config = load_config(write(base=base))
    assert config.model.name_or_path == resolved.format(folder=tmp_path)


def test_paths_of_an_override_are_relative_to_the_working_directory(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    source = "prompt_source={type: jsonl, source_config: {path: tasks.jsonl}}"
    config = load_config(write(), [source])
    assert config.prompt_source.source_config["path"] == str(elsewhere / "tasks.jsonl")


def test_sections_are_written_in_the_order_of_the_documentation(tmp_path: Path) -> None:
    config = RunConfig.model_validate(
        {
            "experiment_name": "ordered",
            "model": {"name_or_path": "m"},
            "environment": {"type": "calculator"},
            "prompt_source": {"type": "list", "source_config": {"items": ["a"]}},
            "algorithm": {"name": "grpo", "hyperparameters": {"num_iterations": 1}},
        }
    )
    written = [line.split(":")[0] for line in dump_config(config).splitlines() if line[0] != " "]
    assert written[:4] == ["experiment_name", "seed", "output_dir", "model"]
