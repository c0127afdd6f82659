"""Training with the real vLLM in a CPU build; skipped where vLLM is not installed.

What a GPU would do and a CPU cannot is replaced: the communicator (see `gloo_weights`) and the
packing of weights for CPU kernels, over which TRL cannot load others. TRL leaves vLLM to compute in
bfloat16; in float32 the logprobs can be compared.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("vllm", reason="needs vLLM: pip install 'trl[vllm]'")

from ahead_run import ahead_config, coming, during_training, true_versions, until, weights_of
from gloo_weights import send_over_gloo
from test_resume import visits
from test_training_ahead import expected_visits, require_conserved, rows
from transformers import AutoModelForCausalLM
from vllm_checks import check_that_weights_follow

from retrain.engine.vllm_engine import VLLMEngine
from retrain.training import train

SERVER = os.environ.get("RETRAIN_TEST_VLLM_SERVER", "")
"""A server of the model of `make_model.py`, in whose process `gloo_weights` stands for NCCL."""


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what TRL and vLLM write into the environment."""
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

    def unpacked(method: Any, layer: Any) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    before = dict(os.environ)
    for method in (UnquantizedLinearMethod, UnquantizedEmbeddingMethod):
        monkeypatch.setattr(method, "process_weights_after_loading", unpacked)
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


def test_colocated_vllm_generates_with_the_weights_that_are_trained(
    config: Any, spy: Any, one_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl.generation import vllm_generation

    exact = partial(vllm_generation.LLM, dtype="float32", enforce_eager=True)
    monkeypatch.setattr(vllm_generation, "LLM", exact)
    monkeypatch.setattr("backends.trl.vllm_planning.can_take_weights", lambda: True)
    check_that_weights_follow(config, spy, trl_vllm_mode="colocate")


@pytest.mark.skipif(not SERVER, reason="needs a vLLM server: RETRAIN_TEST_VLLM_SERVER=http://…")
def test_a_vllm_server_generates_with_the_weights_that_are_trained(
    config: Any, spy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_over_gloo(monkeypatch)
    check_that_weights_follow(
        config,
        spy,
        trl_vllm_mode="server",
        trl_vllm_server_base_url=SERVER,
    )


@pytest.mark.skipif(not SERVER, reason="needs a vLLM server: RETRAIN_TEST_VLLM_SERVER=http://…")
def test_a_vllm_server_writes_the_next_batch_while_one_is_trained_on(
    config: Any, spy: Any, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What new weights or a checkpoint find in the server goes on from its tokens."""
    send_over_gloo(monkeypatch)
    log: list[Any] = []
    weights: dict[int, Any] = {}
    write = VLLMEngine._write

    async def logged(engine: Any, server: Any, session: Any, turn: Any) -> Any:
        log.append(("turn begins", {}, None))
        return await write(engine, server, session, turn)

    def while_training(trainer: Any, step: int) -> None:
        weights[step] = weights_of(trainer)
        before = len(log)
        until(lambda: coming(trainer) is None or coming(trainer).done() or len(log) > before)
        if step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(VLLMEngine, "_write", logged)
    during_training(monkeypatch, log, while_training)
    where = SimpleNamespace(url=SERVER)
    options = {"num_iterations": 5, "max_response_len": 150, "max_tokens_per_turn": 48}
    made = ahead_config(config, where, **options, trl_vllm_server_timeout=60.0)
    assert train(made).iterations == 3
    require_conserved(made, 3)
    monkeypatch.undo()
    send_over_gloo(monkeypatch)
    assert train(ahead_config(config, where, **options, trl_vllm_server_timeout=60.0), resume=True)
    model = AutoModelForCausalLM.from_pretrained(model_dir)
    written = true_versions(spy.batches, weights, model)
    assert written[0] == {"0"} and "0" in written[1] <= {"0", "1"} and "1" in written[2]
    for row in rows(made):
        print({name: value for name, value in row.items() if "diff" in name or "stale" in name})
        assert row.get("train/logprob_abs_diff_current", 0.0) < 1e-4
    assert visits(made.output_dir, 5) == expected_visits(made, 5)
