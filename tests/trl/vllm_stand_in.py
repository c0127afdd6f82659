"""vLLM's `LLM`, as far as TRL's colocated mode and the step loop use it, over a real tiny model.

The interface is that of vLLM 0.31 (`vllm/entrypoints/llm.py`, `vllm/v1/engine/llm_engine.py`): one
forward per step for every running request, `RequestOutput`s with what is new, logprobs of the
tempered distribution. Sleep level 2 discards the weights, as vLLM's does.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM


@dataclass
class Params:
    """`vllm.SamplingParams`."""

    n: int
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int
    stop_token_ids: list[int]
    ignore_eos: bool
    logprobs: int
    detokenize: bool
    output_kind: str


@dataclass
class Running:
    request_id: str
    ids: list[int]
    params: Params
    left: int
    generator: torch.Generator = field(default_factory=torch.Generator)


class TinyEngine:
    """`LLMEngine`: all running requests take one token per step."""

    def __init__(self, model: Any, longest: int, logprobs_mode: str) -> None:
        self.model = model
        self.model_config = SimpleNamespace(max_model_len=longest, logprobs_mode=logprobs_mode)
        runner = SimpleNamespace(model=self)
        worker = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))
        self.model_executor = worker
        self.running: dict[str, Running] = {}
        self.widths: list[int] = []
        self.broken = False

    def load_weights(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, value in weights:
                parameters[name].copy_(value)

    def add_request(self, request_id: str, prompt: dict[str, list[int]], params: Params) -> str:
        ids = prompt["prompt_token_ids"]
        if len(ids) >= self.model_config.max_model_len:
            raise ValueError(f"maximum context length is {self.model_config.max_model_len} tokens")
        left = min(params.max_tokens, self.model_config.max_model_len - len(ids))
        running = Running(request_id, list(ids), params, left)
        running.generator.manual_seed(params.seed)
        self.running[request_id] = running
        return request_id

    def abort_request(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self.running.pop(request_id, None)

    def has_unfinished_requests(self) -> bool:
        return bool(self.running)

    def step(self) -> list[Any]:
        if self.broken:
            raise RuntimeError("the card fell off the bus")
        self.widths.append(len(self.running))
        return [self._write(running) for running in list(self.running.values())]

    @torch.no_grad()
    def _write(self, running: Running) -> Any:
        params = running.params
        logits = self.model(torch.tensor([running.ids]), use_cache=False).logits[0, -1]
        logprobs = torch.log_softmax(logits / (params.temperature or 1.0), -1)
        if params.temperature:
            draw = torch.multinomial(logprobs.exp(), 1, generator=running.generator)
        else:
            draw = logprobs.argmax(-1, keepdim=True)
        token = int(draw)
        running.ids.append(token)
        running.left -= 1
        reason = (
            "stop" if token in params.stop_token_ids else "length" if not running.left else None
        )
        if reason is not None:
            del self.running[running.request_id]
        known = {token: SimpleNamespace(logprob=float(logprobs[token]), rank=1)}
        part = SimpleNamespace(token_ids=[token], logprobs=[known], finish_reason=reason)
        return SimpleNamespace(
            request_id=running.request_id,
            outputs=[part],
            finished=reason is not None,
            num_cached_tokens=0,
        )


class TinyLLM:
    """`LLM`.

    Attributes:
        calls: What was asked of it besides turns, in order.
    """

    def __init__(
        self,
        model: str,
        *,
        max_model_len: int = 512,
        logprobs_mode: str = "processed_logprobs",
        **options: Any,
    ) -> None:
        self.options = options
        self.calls: list[str] = []
        loaded = AutoModelForCausalLM.from_pretrained(model).eval()
        self.llm_engine = TinyEngine(loaded, max_model_len, logprobs_mode)

    def reset_prefix_cache(self) -> bool:
        self.calls.append("reset")
        return not self.llm_engine.has_unfinished_requests()

    def sleep(self, level: int) -> None:
        self.calls.append("sleep")
        assert level == 2
        with torch.no_grad():
            for parameter in self.llm_engine.model.parameters():
                parameter.normal_()

    def wake_up(self, tags: list[str]) -> None:
        self.calls.append(f"wake {tags[0]}")


def stand_in_for_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `from vllm import SamplingParams` work where vLLM is not installed."""
    vllm, params = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    vllm.SamplingParams = Params  # type: ignore[attr-defined]
    params.RequestOutputKind = SimpleNamespace(DELTA="delta")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)
