"""Training with a vLLM server: TRL sends the weights, retrain asks for the turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from gloo_weights import send_over_gloo
from vllm_checks import check_that_weights_follow, vllm_config
from vllm_training_server import Start, server_options, serving

from backends.trl import vllm_weights
from retrain.engine import vllm_weights as server_calls
from retrain.errors import RetrainError
from retrain.training import train

pytestmark = pytest.mark.slow


@pytest.fixture
def start(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts servers of the model that is trained."""
    send_over_gloo(monkeypatch)
    with serving(model_dir) as make:
        yield make


def test_the_server_generates_with_the_weights_that_are_trained(
    config: Any, spy: Any, start: Start
) -> None:
    server = start()
    server.held = 2
    before = {name: p.clone() for name, p in server.served.model.named_parameters()}
    check_that_weights_follow(config, spy, **server_options(server))
    trained = dict(spy.trainers[0].model.named_parameters())
    for name, parameter in server.served.model.named_parameters():
        assert torch.equal(parameter, trained[name])
        assert not torch.equal(parameter, before[name])
    assert len(server.updates) == 4, "before each iteration, and for the evaluation at the end"
    assert len(server.calls("/reset_prefix_cache")) == 4 + 4 + 1, "TRL's are not looked at"
    seeds = [body["seed"] for body in server.calls("/v1/completions")]
    assert len({*seeds}) > len(seeds) / 2, "each turn has its own"


def test_truncated_importance_sampling_recomputes_the_old_logprobs(
    config: Any, spy: Any, start: Start
) -> None:
    check_that_weights_follow(config, spy, importance_correction="tis", **server_options(start()))


def test_weights_that_do_not_move_end_the_run(config: Any, start: Start) -> None:
    server = start()
    server.deaf = True
    with pytest.raises(RetrainError, match=r"the weights do not move: after \d syncs"):
        train(vllm_config(config, learning_rate=5e-4, **server_options(server)))


def test_another_model_on_the_server_ends_the_run(config: Any, start: Start) -> None:
    server = start()
    server.deaf = True
    with torch.no_grad():
        for parameter in server.served.model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    with pytest.raises(RetrainError, match=r"does not generate with the trainer's weights"):
        train(vllm_config(config, **server_options(server)))


def test_another_vocabulary_is_refused_before_a_weight_is_sent(
    config: Any, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    monkeypatch.setattr(server.served, "encode", lambda text: [1, 2, 3], raising=False)
    with pytest.raises(RetrainError, match="another vocabulary"):
        train(vllm_config(config, **server_options(server)))
    assert not server.calls("/init_weight_transfer_engine")


def broken(**logprobs: Any) -> Callable[[Any], Any]:
    def change(reply: Any) -> Any:
        (choice,) = reply["choices"]
        return {**reply, "choices": [{**choice, "logprobs": {**choice["logprobs"], **logprobs}}]}

    return change


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (broken(token_logprobs=None), "gives no logprobs"),
        (broken(token_logprobs=[-1.0]), r"\d+ tokens with 1 logprobs"),
    ],
)
def test_answers_that_cannot_be_trained_on_end_the_run(
    config: Any, start: Start, fault: Any, message: str
) -> None:
    server = start()
    server.faults.extend([fault] * 200)
    sections = {"rollout": {"engine_retries": 0}}
    with pytest.raises(RetrainError, match=message):
        train(vllm_config(config, sections=sections, **server_options(server)))


def test_a_server_that_dies_ends_the_run_with_its_name(
    config: Any, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    ready = vllm_weights.ServerWeights._require_ready

    def dying(weights: Any) -> None:
        if weights._trainer.state.global_step == 1:
            server.kill()
        ready(weights)

    monkeypatch.setattr(vllm_weights.ServerWeights, "_require_ready", dying)
    with pytest.raises(RetrainError, match=rf"GET {server.url}/health: Client"):
        train(vllm_config(config, **server_options(server)))


def test_no_server_is_told_with_the_command_that_starts_one(config: Any, start: Start) -> None:
    server = start()
    server.kill()
    with pytest.raises(
        RetrainError, match=r"no vLLM server came up within 1 s .*vllm serve .*--weight-transfer"
    ):
        train(vllm_config(config, **server_options(server)))


def test_a_server_without_weight_transfer_is_told_by_trl(config: Any, start: Start) -> None:
    server = start(transfer=False)
    with pytest.raises(RetrainError, match=r"TRL: RuntimeError: .* has no weight-transfer engine"):
        train(vllm_config(config, **server_options(server)))


def test_a_prefix_cache_that_stays_ends_the_run(
    config: Any, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    server.held = 10**6
    monkeypatch.setattr(server_calls, "FORGET_SECONDS", 0.3)
    with pytest.raises(RetrainError, match="still holds the KV cache of older weights"):
        train(vllm_config(config, **server_options(server)))
