"""Training with the real vLLM in a CPU build; skipped where vLLM is not installed.

What a GPU would do and a CPU cannot is replaced: the communicator (see `gloo_weights`) and the
packing of weights for CPU kernels, over which TRL cannot load others. TRL leaves vLLM to compute in
bfloat16; in float32 the logprobs can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

pytest.importorskip("vllm", reason="needs vLLM: pip install 'trl[vllm]'")

from gloo_weights import send_over_gloo
from vllm_checks import check_that_weights_follow

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
