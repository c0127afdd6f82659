import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from retrain.config import Hyperparameters, load_config
from retrain.errors import ConfigError

Write = Callable[..., Path]


def hyperparameters(*lines: str, name: str = "grpo", backend: str = "trl") -> str:
    head = f"algorithm:\n  name: {name}\n  backend: {backend}\n  hyperparameters:\n"
    return head + "".join(f"    {line}\n" for line in lines)


def error_of(path: Path, *overrides: str, backend: str | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        load_config(path, overrides, backend)
    message = str(raised.value)
    assert "pydantic" not in message
    assert message.startswith(str(path)) or message.startswith("--set")
    return message.replace(str(path), "FILE")


def test_defaults_are_those_of_the_vocabulary(write: Write) -> None:
    config = load_config(write())
    given = config.algorithm.hyperparameters
    assert (config.seed, config.output_dir) == (42, Path("runs/calculator"))
    assert (given.rollout_batch_size, given.n_samples_per_prompt) == (8, 8)
    assert given.global_batch_size == 64
    assert (given.learning_rate, given.lr_schedule, given.warmup_steps) == (1e-6, "constant", 0)
    assert (given.weight_decay, given.adam_beta1, given.adam_beta2) == (0.0, 0.9, 0.98)
    assert (given.max_grad_norm, given.temperature, given.top_p, given.top_k) == (1.0, 1.0, 1.0, -1)
    assert (given.max_response_len, given.max_tokens_per_turn) == (512, None)
    assert (given.kl_coef, given.kl_estimator) == (0.0, "k3")
    assert (given.clip_eps_low, given.clip_eps_high) == (0.2, 0.2)
    assert (given.loss_aggregation, given.importance_correction) == ("token", "none")
    assert config.rollout.failure.environment == "mask"
    assert config.stages == () and config.stage_configs() == ()


def test_the_configuration_is_frozen(write: Write) -> None:
    config = load_config(write())
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 3


@pytest.mark.parametrize("number", ["1e-5", "1E-5", "1.0e-5", "0.00001"])
def test_numbers_are_yaml_1_2(write: Write, number: str) -> None:
    path = write(hyperparameters("num_iterations: 1", f"learning_rate: {number}"))
    assert load_config(path).algorithm.hyperparameters.learning_rate == 1e-5


def test_a_date_is_text(write: Write) -> None:
    path = write(hyperparameters("num_iterations: 1") + "rendering: {date: 2025-01-31}\n")
    assert load_config(path).rendering.date == "2025-01-31"


@pytest.mark.parametrize(
    ("synonym", "key", "value"),
    [
        ("num_generations", "n_samples_per_prompt", 4),
        ("max_completion_length", "max_response_len", 99),
        ("beta", "kl_coef", 0.25),
        ("epsilon", "clip_eps_low", 0.3),
        ("epsilon_high", "clip_eps_high", 0.28),
    ],
)
def test_a_synonym_is_its_key(write: Write, synonym: str, key: str, value: float) -> None:
    given = load_config(write(hyperparameters("num_iterations: 1", f"{synonym}: {value}")))
    assert getattr(given.algorithm.hyperparameters, key) == value
    agreeing = write(hyperparameters("num_iterations: 1", f"{synonym}: {value}", f"{key}: {value}"))
    assert load_config(agreeing) == given
    message = error_of(
        write(hyperparameters("num_iterations: 1", f"{synonym}: {value}", f"{key}: 1"))
    )
    assert f"line 11: algorithm.hyperparameters.{key}: 1 contradicts {synonym}: {value}" in message


def test_a_framework_option_and_our_key_must_agree(write: Write) -> None:
    lines = ("num_iterations: 1", "kl_coef: 0.1", "trl_beta: 0.2", "slime_kl_loss_coef: 0.1")
    message = error_of(write(hyperparameters(*lines)))
    assert "line 11: algorithm.hyperparameters.trl_beta: 0.2 contradicts kl_coef: 0.1" in message
    on_slime = load_config(write(hyperparameters(*lines)), backend="slime")
    assert on_slime.algorithm.hyperparameters.kl_coef == 0.1


def test_a_wrong_value_is_reported_under_the_framework_option_that_set_it(write: Write) -> None:
    message = error_of(write(hyperparameters("num_iterations: 1", "trl_temperature: hot")))
    assert "line 10: algorithm.hyperparameters.trl_temperature: expected a number" in message


def test_options_of_a_third_partys_backend_are_collected(write: Write) -> None:
    path = write(hyperparameters("num_iterations: 1", "acme_depth: 3", backend="acme"))
    assert load_config(path).algorithm.hyperparameters.prefixed("acme") == {"depth": 3}
    assert "acme_depth: unknown key" in error_of(path, backend="trl")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["learning_rat: 1", "num_iterations: 1"],
            "learning_rat: unknown key; did you mean 'learning_rate'?",
        ),
        (["seed: 3", "num_iterations: 1"], "seed: unknown key; it belongs under the top level"),
        (["num_iterations: twenty"], "num_iterations: expected an integer, got 'twenty'"),
        (["num_iterations: 2.0"], "num_iterations: expected an integer, got 2.0"),
        (["num_iterations: true"], "num_iterations: expected an integer, got True"),
        (["num_iterations: 0"], "num_iterations: expected more than 0, got 0"),
        (["num_iterations: [1]"], "num_iterations: expected an integer, got a list"),
        (
            ["num_iterations: 1", 'learning_rate: "1e-5"'],
            "expected a number, got '1e-5'; remove the quotes",
        ),
        (["num_iterations: 1", "learning_rate: .inf"], "learning_rate: expected a finite number"),
        (["num_iterations: 1", "learning_rate: null"], "expected a number, got nothing (null)"),
        (["num_iterations: 1", "adam_beta2: 1"], "adam_beta2: expected less than 1"),
        (["num_iterations: 1", "top_p: 1.5"], "top_p: expected at most 1"),
        (
            ["num_iterations: 1", "top_k: 0"],
            "top_k: expected -1 (off) or an integer greater than 0, got 0",
        ),
        (["num_iterations: 1", "lr_schedule: cosin"], "got 'cosin'; did you mean 'cosine'?"),
        (
            ["num_iterations: 1", "num_epochs: 1"],
            "exactly one of num_iterations and num_epochs; both are set",
        ),
        (["learning_rate: 1"], "exactly one of num_iterations and num_epochs; neither is set"),
        (
            ["num_iterations: 1", "num_generations: 1"],
            "num_generations: must be at least 2: grpo compares",
        ),
        (
            ["num_iterations: 1", "eval_interval: 1"],
            "eval_interval: is set, but there is no evaluation section",
        ),
        (["1: 2", "num_iterations: 1"], "hyperparameters.1: keys must be text; quote it"),
    ],
)
def test_a_wrong_hyperparameter_is_named(write: Write, lines: list[str], said: str) -> None:
    message = error_of(write(hyperparameters(*lines)))
    assert re.match(r"FILE, line \d+: algorithm\.hyperparameters", message), message
    assert said in message.replace("[1]", ".1")


def test_sizes_that_do_not_divide_are_shown_with_the_arithmetic(write: Write) -> None:
    lines = (
        "num_iterations: 1",
        "rollout_batch_size: 3",
        "num_generations: 4",
        "global_batch_size: 5",
    )
    assert (
        "line 12: algorithm.hyperparameters.global_batch_size: 5 does not divide the 12 rollouts "
        "of an iteration (rollout_batch_size 3 x n_samples_per_prompt 4); use one of 1, 2, 3, 4, "
        "6, 12"
    ) in error_of(write(hyperparameters(*lines)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model: 3", "line 2: model: expected a mapping (lines of `key: value`), got 3"),
        ("model: {}", "line 2: model.name_or_path: is missing; it is required: a name on the"),
        ("model: {name_or_path: ''}", "name_or_path: expected text that is not empty"),
        ("model: {name_or_path: m, torch_dtype: float61}", "did you mean 'float16'?"),
        ("model: {name_or_path: m, trust_remote_code: yes}", "that is text, so write true"),
        ("model: {name_or_path: m, threads: 0}", "threads: expected more than 0, got 0"),
        ("modle: {name_or_path: m}", "modle: unknown key; did you mean 'model'?"),
        ("environment: {type: e, env_specific_config: {a: {b: .nan}}}", "a.b: expected a finite"),
        ("environment: {type: e, env_specific_config: {a: {3: 4}}}", "a: has the key 3; keys must"),
        ("environment: {type: e, env_specific_config: &x {a: *x}}", "holds itself"),
        ("prompt_source: {type: csv}", "expected 'list', 'jsonl', 'dataset' or 'environment'"),
        (
            "prompt_source: {type: jsonl, source_config: {pth: x}}",
            "unknown key; did you mean 'path'",
        ),
        (
            "prompt_source: {type: jsonl}",
            "source_config.path: is missing; it is required: the file",
        ),
        ("prompt_source: {type: list, source_config: {items: []}}", "list that is not empty"),
        (
            "reward_setup: {step_reward_configs: {f: {weigth: 1}}}",
            "f.weigth: unknown key; did you mean 'weight'?",
        ),
        (
            "reward_setup: {rollout_reward_configs: {f: {on_failure: value}}}",
            "f.value: must be set with",
        ),
        ("reward_setup: {rollout_reward_configs: {f: {value: 1}}}", "f.value: must be set with"),
        (
            "rollout: {failure: {engine: ignore}}",
            "'mask', 'retry', 'refill' or 'raise', got 'ignore'",
        ),
        ("rollout: {max_failure_rate: 2}", "max_failure_rate: expected at most 1"),
        ("rendering: {date: today}", "rendering.date: expected a date, YYYY-MM-DD, got 'today'"),
        ("rendering: {date: 2024-13-45}", "expected a date, YYYY-MM-DD, got '2024-13-45'"),
        ("rendering: {stop_token_ids: ['1']}", "stop_token_ids[0]: expected an integer, got '1'"),
        ("evaluation: {interval: 3}", "evaluation.prompt_source: is missing; it is required"),
        ("experiment_name: a/b", "experiment_name: expected text that matches"),
        ("seed: -1", "seed: expected at least 0, got -1"),
        ("slime_laptop: {slim: x}", "slime_laptop.slim: "),
        ("stages: [{name: a}, {name: a}]", "stages[1].name: 'a' stands twice"),
        ("stages: [{name: a, output_dir: x}]", "stages[0].output_dir: cannot stand in a stage"),
        ("stages: {name: a}", "stages: expected a list, got a mapping"),
    ],
)
def test_a_wrong_section_is_named(write: Write, text: str, said: str) -> None:
    key = text.split(":")[0]
    sections = {
        "experiment_name": "experiment_name: calculator",
        "model": "model: {name_or_path: some/model}",
        "environment": "environment: {type: calculator}",
        "prompt_source": "prompt_source: {type: list, source_config: {items: ['1+1']}}",
        "algorithm": "algorithm: {name: grpo, hyperparameters: {num_iterations: 1}}",
    }
    sections[key] = text
    assert said in error_of(write("\n".join(sections.values()), base=""))


def test_several_problems_are_reported_together_in_the_order_of_the_file(write: Write) -> None:
    text = hyperparameters("learning_rat: 1", "num_iterations: x") + "sed: 1\n"
    lines = error_of(write(text)).splitlines()
    assert lines[0] == "FILE: 3 problems"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["line 9", "line 10", "line 11"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "FILE: is empty"),
        ("# nothing\n", "FILE: is empty"),
        ("- a\n", "FILE: expected a mapping"),
        ("a: 1\nb: [1,\n", "FILE, line 3: is not YAML"),
        ("a: b: c\n", "FILE, line 1: is not YAML: mapping values are not allowed here"),
        ("a:\n\t- b\n", "FILE, line 2: a tab indents this line; YAML wants spaces"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "FILE, line 4: the key 'c' stands twice"),
        ("a: !!python/object:os.system x\n", "FILE, line 1: is not YAML: could not determine"),
        ("a: 1\n---\nb: 2\n", "FILE, line 2: is not YAML: but found another document"),
        ("a: \x00\n", "FILE: is not YAML"),
        ("[" * 1200, "FILE: is not YAML"),
        ("{a: 1}: 2\n", "FILE, line 1: is not YAML: found unhashable key"),
    ],
)
def test_a_file_that_is_not_one_mapping_is_one_error(write: Write, text: str, said: str) -> None:
    path = write("", base="")
    path.write_text(text)
    assert error_of(path).startswith(said)


def test_a_key_that_is_not_text_is_named(write: Write) -> None:
    assert "keys must be text" in error_of(write("? [a, b]\n: 1\n"))


def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    assert "no such file" in error_of(tmp_path / "nothing.yaml")
    assert "is a folder" in error_of(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\xe9\n")
    assert "cannot be read as UTF-8" in error_of(tmp_path / "latin.yaml")


def test_a_credential_is_not_shown_in_an_error(write: Write) -> None:
    message = error_of(write(hyperparameters("num_iterations: 1", "api_key: [hunter2]")))
    assert "hunter2" not in message


def test_sft_steps_hold_eight_demonstrations_unless_said_otherwise(write: Write) -> None:
    config = load_config(write(hyperparameters("num_epochs: 2", name="sft")))
    assert config.algorithm.hyperparameters.global_batch_size == 8
    own = write(hyperparameters("num_epochs: 2", "global_batch_size: 5", name="sft"))
    assert load_config(own).algorithm.hyperparameters.global_batch_size == 5
    message = error_of(write(hyperparameters("num_epochs: 2", "kl_coef: 0.1", name="sft")))
    assert "line 10: algorithm.hyperparameters.kl_coef: means nothing to sft" in message


def test_hyperparameters_can_be_built_in_code() -> None:
    built = Hyperparameters.model_validate({"num_iterations": 3, "num_generations": 2})
    assert (built.global_batch_size, built.n_samples_per_prompt) == (16, 2)
    assert built.given() == {"num_iterations": 3, "n_samples_per_prompt": 2}


def test_evaluation_falls_back_on_the_hyperparameters(write: Write) -> None:
    source = "prompt_source: {type: list, source_config: {items: ['1']}}"
    text = hyperparameters("num_iterations: 1", "eval_interval: 5", "temperature: 0.5")
    inherited = load_config(write(text + f"evaluation: {{{source}}}\n"))
    assert (inherited.eval_interval, inherited.eval_temperature) == (5, 0.5)
    own = load_config(write(text + f"evaluation: {{{source}, interval: 2, temperature: 0}}\n"))
    assert (own.eval_interval, own.eval_temperature) == (2, 0.0)
