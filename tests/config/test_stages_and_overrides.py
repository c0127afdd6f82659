from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.config import RunConfig, load_config
from retrain.config.merge import deep_merge
from retrain.errors import ConfigError

Write = Callable[..., Path]

STAGES = """\
algorithm:
  name: grpo
  hyperparameters:
    num_iterations: 20
    learning_rate: 1e-5
    kl_coef: 0.1
    temperature: 0.7
stages:
  - name: warm
    algorithm: {name: sft, hyperparameters: {num_epochs: 3, learning_rate: 3e-3}}
    prompt_source: {type: jsonl, source_config: {path: demos.jsonl}}
  - name: main
    algorithm: {backend: slime, hyperparameters: {beta: 0.2, n_samples_per_prompt: 4}}
    environment: {env_specific_config: {max_turns: 3}}
"""
RATE = "algorithm.hyperparameters.learning_rate"


def stages_of(path: Path, *overrides: str, backend: str | None = None) -> dict[str, RunConfig]:
    return dict(load_config(path, overrides, backend).stage_configs())


def test_a_stage_lays_its_keys_over_the_file(write: Write) -> None:
    stages = stages_of(write(STAGES))
    warm, main = stages["warm"], stages["main"]
    assert list(stages) == ["warm", "main"]
    assert (warm.algorithm.name, main.algorithm.name) == ("sft", "grpo")
    assert (warm.algorithm.backend, main.algorithm.backend) == ("trl", "slime")
    assert main.algorithm.hyperparameters.kl_coef == 0.2
    assert main.algorithm.hyperparameters.learning_rate == 1e-5
    assert main.environment.env_specific_config == {"max_turns": 3}
    assert main.output_dir == Path("runs/calculator/stages/main")
    assert main.stages == ()


def test_a_computed_default_follows_the_stages_own_keys(write: Write) -> None:
    stages = stages_of(write(STAGES))
    assert stages["main"].algorithm.hyperparameters.global_batch_size == 32
    assert stages["warm"].algorithm.hyperparameters.global_batch_size == 8


def test_an_sft_stage_inherits_what_means_something_to_it(write: Write) -> None:
    warm = stages_of(write(STAGES))["warm"].algorithm.hyperparameters
    assert (warm.num_epochs, warm.num_iterations) == (3, None)
    assert (warm.temperature, warm.learning_rate) == (0.7, 3e-3)
    assert warm.kl_coef == 0.0


def test_a_section_whose_type_changes_is_replaced(write: Write) -> None:
    path = write(STAGES)
    source = stages_of(path)["warm"].prompt_source
    assert source.type == "jsonl"
    assert source.source_config["path"] == str(path.parent / "demos.jsonl")
    assert "items" not in source.source_config


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "  - {name: late, algorithm: {hyperparameters: {num_iteration: 2}}}",
            "line 19: stages[2] (late): algorithm.hyperparameters.num_iteration: unknown key; "
            "did you mean 'num_iterations'?",
        ),
        (
            "  - {name: late, algorithm: {hyperparameters: {global_batch_size: 7}}}",
            "line 19: stages[2] (late): algorithm.hyperparameters.global_batch_size: 7 does not",
        ),
        (
            "  - {name: late, algorithm: {name: sft, hyperparameters: {beta: 0.3}}}",
            "line 19: stages[2] (late): algorithm.hyperparameters.beta: means nothing to sft",
        ),
        (
            "  - {name: late, model: 3}",
            "line 19: stages[2] (late): model: expected a mapping",
        ),
        (
            "  - {name: late, environment: {type: other, env_config: {}}}",
            "did you mean 'env_specific_config'?",
        ),
    ],
)
def test_a_stage_that_does_not_fit_is_named_with_its_line(
    write: Write, line: str, said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(write(STAGES + line + "\n"))
    assert said in str(raised.value).replace("run.yaml, line", "run.yaml: line")


def test_an_inherited_fault_is_placed_where_it_was_written(write: Write) -> None:
    text = STAGES.replace("temperature: 0.7", "eval_interval: 5")
    with pytest.raises(ConfigError) as raised:
        load_config(write(text))
    said = str(raised.value)
    assert "line 11: stages[1] (main): algorithm.hyperparameters.eval_interval: is set" in said
    assert "stages[0]" not in said, "sft does not inherit what means nothing to it"


def test_stages_built_in_code_are_checked_too(write: Write) -> None:
    content = load_config(write()).model_dump(exclude_unset=True)
    config = RunConfig.model_validate({**content, "stages": [{"name": "a", "modl": 1}]})
    with pytest.raises(ConfigError, match=r"stages\[0\] \(a\): modl: unknown key"):
        config.stage_configs()


def test_the_file_may_leave_to_its_stages_what_each_of_them_names(write: Write) -> None:
    text = STAGES.replace("    num_iterations: 20\n", "")
    with pytest.raises(ConfigError, match=r"stages\[1\] \(main\).*exactly one of num_iterations"):
        load_config(write(text))
    text = text.replace("beta: 0.2", "num_iterations: 2")
    assert stages_of(write(text))["main"].algorithm.hyperparameters.num_iterations == 2


@pytest.mark.parametrize("value", ["1e-4", "0.0001", " 1e-4"])
def test_an_override_wins_and_is_yaml(write: Write, value: str) -> None:
    config = load_config(write(), [f"{RATE}=3", f"{RATE}={value}"])
    assert config.algorithm.hyperparameters.learning_rate == 1e-4


def test_overrides_reach_new_sections_lists_and_stages(write: Write) -> None:
    config = load_config(
        write(STAGES),
        [
            "environment.env_specific_config={words: [a, b]}",
            "environment.env_specific_config.words.1=c",
            "stages.1.algorithm.hyperparameters.beta=0.5",
            "rollout.failure.engine=mask",
        ],
    )
    main = dict(config.stage_configs())["main"]
    assert main.environment.env_specific_config == {"words": ["a", "c"], "max_turns": 3}
    assert main.algorithm.hyperparameters.kl_coef == 0.5
    assert main.rollout.failure.engine == "mask"


def test_an_override_replaces_a_synonym_and_the_other_length(write: Write) -> None:
    path = write("algorithm: {name: grpo, hyperparameters: {beta: 0.1, num_iterations: 3}}\n")
    at = "algorithm.hyperparameters"
    config = load_config(path, [f"{at}.kl_coef=0.2", f"{at}.num_epochs=2"])
    given = config.algorithm.hyperparameters
    assert (given.kl_coef, given.num_epochs, given.num_iterations) == (0.2, 2, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed", "--set seed: write it as key.key=value"),
        ("=3", "write it as key.key=value"),
        ("a..b=3", "write it as key.key=value"),
        ("seed=[1,", "--set seed=[1,, line 1: is not YAML"),
        ("seed=x", "--set seed=x: seed: expected an integer, got 'x'"),
        ("stages.5.name=x", "stages is a list of 2 in the file"),
        ("model.3.x=x", "model is no list in the file"),
        ("prompt_source.source_config.items.0.prompt=x", "entry 0 of items holds no keys"),
        ("algorithm.hyperparameters.lerning_rate=1", "did you mean 'learning_rate'?"),
    ],
)
def test_a_wrong_override_is_named(write: Write, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(write(STAGES), [text])
    assert said in str(raised.value).replace("run.yaml, --set", "run.yaml: --set")


def test_the_backend_argument_changes_the_one_key(write: Write) -> None:
    assert load_config(write(), backend="slime").algorithm.backend == "slime"
    stages = stages_of(write(STAGES), backend="torch")
    assert [stage.algorithm.backend for stage in stages.values()] == ["torch", "slime"]


keys = st.sampled_from("abcd")
trees = st.dictionaries(
    keys, st.recursive(st.integers(), lambda inner: st.dictionaries(keys, inner, max_size=3))
)


@given(trees, trees)
def test_every_leaf_of_a_merge_is_the_overlays_or_else_the_bases(
    base: dict[str, object], over: dict[str, object]
) -> None:
    merged = deep_merge(base, over)
    assert deep_merge(merged, over) == merged
    assert merged.keys() == base.keys() | over.keys()
    for key, value in merged.items():
        below, above = base.get(key), over.get(key)
        if isinstance(below, dict) and isinstance(above, dict):
            assert value == deep_merge(below, above)
        else:
            assert value == (above if key in over else below)
