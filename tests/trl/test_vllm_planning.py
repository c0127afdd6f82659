"""What a plan says about vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends.base import Plan
from backends.trl import vllm_planning
from backends.trl.backend import TRLBackend
from retrain.config import RunConfig
from retrain.errors import ConfigError

HYPER = "algorithm.hyperparameters."
URL = "http://gpu-2:8000"


@pytest.fixture
def possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU and vLLM."""
    monkeypatch.setattr(vllm_planning, "is_installed", lambda: True)
    monkeypatch.setattr(vllm_planning, "can_take_weights", lambda: True)


def plan(config: Any, **hyper: Any) -> Plan:
    return TRLBackend().plan(config(trl_use_vllm=True, **hyper))


def errors(planned: Plan) -> dict[str, str]:
    return {problem.key.removeprefix(HYPER): problem.message for problem in planned.errors}


def test_a_server_s_options_reach_trl_and_its_correction_is_off(config: Any, possible: Any) -> None:
    planned = plan(config, trl_vllm_mode="server", trl_vllm_server_base_url=URL)
    assert not planned.errors
    expected = {
        "use_vllm": True,
        "vllm_mode": "server",
        "vllm_server_base_url": URL,
        "vllm_server_timeout": 240.0,
        "vllm_importance_sampling_correction": False,
    }
    assert {key: planned.arguments[key] for key in expected} == expected
    assert vllm_planning.server_url(planned.arguments) == URL
    assert "kv_slots" not in planned.memory
    json.dumps(dict(planned.arguments))


def test_the_default_server_is_trl_s(config: Any, possible: Any) -> None:
    arguments = plan(config, trl_vllm_mode="server", trl_vllm_server_port=9000).arguments
    assert vllm_planning.server_url(arguments) == "http://0.0.0.0:9000"


def test_colocated_vllm_holds_one_episode_at_its_longest(config: Any, possible: Any) -> None:
    planned = plan(config, max_context_len=300)
    assert not planned.errors
    assert planned.arguments["vllm_mode"] == "colocate"
    assert planned.arguments["vllm_max_model_length"] == 300


@pytest.mark.parametrize(
    ("hyper", "key", "message"),
    [
        ({"trl_vllm_tensor_parallel_size": 2}, "trl_vllm_tensor_parallel_size", "for ever; use 1"),
        ({"trl_vllm_server_port": 1}, "trl_vllm_server_port", "belongs to trl_vllm_mode: server"),
        ({"trl_vllm_mode": "mixed"}, "trl_vllm_mode", "expected server or colocate"),
        ({"top_p": 0.9}, "top_p", "set top_p: 1 and top_k: -1"),
        ({"top_k": 5}, "top_p", "set top_p: 1 and top_k: -1"),
        ({"temperature": 2.5}, "temperature", "from 0 to 2, not 2.5"),
        (
            {"trl_vllm_max_model_length": 50, "max_context_len": 60},
            "trl_vllm_max_model_length",
            "50 tokens, and an episode may have max_context_len 60",
        ),
        (
            {"trl_vllm_mode": "server", "trl_vllm_server_base_url": f"{URL}/v1"},
            "trl_vllm_server_base_url",
            "without a path such as /v1",
        ),
        (
            {"trl_vllm_mode": "server", "trl_vllm_gpu_memory_utilization": 0.5},
            "trl_vllm_gpu_memory_utilization",
            "belongs to trl_vllm_mode: colocate, and it is server",
        ),
    ],
)
def test_what_vllm_cannot_honour_is_refused(
    config: Any, possible: Any, hyper: Any, key: str, message: str
) -> None:
    found = errors(plan(config, **hyper))
    assert list(found) == [key]
    assert message in found[key]


def test_quantised_weights_are_refused(config: Any, possible: Any) -> None:
    model = config().model.model_dump(exclude_defaults=True)
    sections = {"model": {**model, "peft": {"r": 4, "bits": 4}}}
    assert "cannot be sent" in errors(plan(config, sections=sections))["model.peft.bits"]


def test_a_missing_vllm_and_a_missing_gpu_are_named(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_planning, "is_installed", lambda: False)
    monkeypatch.setattr(vllm_planning, "can_take_weights", lambda: False)
    for mode, reason in (("server", "over NCCL"), ("colocate", "packs its weights")):
        messages = [problem.message for problem in plan(config, trl_vllm_mode=mode).errors]
        assert any("pip install 'trl[vllm]'" in message for message in messages)
        assert any(reason in message and "no GPU" in message for message in messages)


def test_options_of_a_vllm_that_is_not_used_are_refused(config: Any) -> None:
    planned = TRLBackend().plan(config(trl_vllm_mode="server"))
    assert "set trl_use_vllm: true" in errors(planned)["trl_vllm_mode"]


@pytest.mark.parametrize(
    "option", ["vllm_importance_sampling_mode", "vllm_structured_outputs_regex"]
)
def test_options_that_would_undo_ours_are_refused(config: Any, option: str) -> None:
    with pytest.raises(ConfigError, match=rf"trl_{option}: is refused: "):
        plan(config, **{f"trl_{option}": "x"})


def test_rollout_engine_vllm_is_told_how_trl_gets_it(config: Any, possible: Any) -> None:
    sections = {"rollout": {"engine": {"name": "vllm", "urls": URL}}}
    found = errors(TRLBackend().plan(config(sections=sections)))
    assert "trl_use_vllm: true" in found["rollout.engine"]
    both = plan(config, sections=sections, trl_vllm_mode="server", trl_vllm_server_base_url=URL)
    assert not both.errors, "the same server for retrain eval"


def test_asynchronous_needs_a_server_with_weights_of_its_own(config: Any, possible: Any) -> None:
    sections = {"rollout": {"asynchronous": True}}
    shared = errors(TRLBackend().plan(config(sections=sections)))
    assert [*shared] == ["rollout.asynchronous"]
    assert "the very weights that are trained on" in shared["rollout.asynchronous"]
    colocated = errors(plan(config, sections=sections, trl_vllm_mode="colocate"))
    assert [*colocated] == ["rollout.asynchronous"]
    assert "one with the trainer's device" in colocated["rollout.asynchronous"]
    for found in (shared, colocated):
        assert "trl_vllm_mode: server, or asynchronous: false" in found["rollout.asynchronous"]
    assert not plan(config, sections=sections, trl_vllm_mode="server").errors


def test_asynchronous_masks_no_stale_tokens(config: Any, possible: Any) -> None:
    sections = {"rollout": {"asynchronous": True, "mask_stale_tokens": True}}
    found = errors(plan(config, sections=sections, trl_vllm_mode="server"))
    assert [*found] == ["rollout.mask_stale_tokens"]
    assert "would mask nearly every token" in found["rollout.mask_stale_tokens"]


def test_a_stage_that_collects_nothing_does_not_mind_asynchronous(config: Any) -> None:
    rollout = {"asynchronous": True, "mask_stale_tokens": True}
    algorithm = {"name": "sft", "hyperparameters": {"num_iterations": 3}}
    base = config().model_dump(mode="json", exclude_unset=True)
    made = RunConfig.model_validate({**base, "rollout": rollout, "algorithm": algorithm})
    assert not errors(TRLBackend().plan(made))


@pytest.mark.parametrize("sharding", ["fsdp", "zero3"])
@pytest.mark.parametrize("mode", ["server", "colocate"])
def test_sharded_launches_take_vllm_and_not_the_engine_in_this_process(
    config: Any,
    possible: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sharding: str,
    mode: str,
) -> None:
    if sharding == "fsdp":
        monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    else:
        monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
        monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "3")
    monkeypatch.setattr("backends.trl.planning._require_accepted", lambda *_, **__: None)
    assert not plan(config, trl_vllm_mode=mode).errors
    (refused,) = TRLBackend().plan(config()).errors
    assert "trl_use_vllm: true" in refused.message
