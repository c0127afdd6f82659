"""retrain's own engines run through the kit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from retrain.testing import EngineSuite

STOP = 2


class OverTheDemo(EngineSuite):
    """Engines over the calculator example's model."""

    abort_tokens = 200
    model: Any

    @pytest.fixture(autouse=True)
    def loaded(self, demo_model: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        kept = vars(type(self))
        if "model" not in kept:
            type(self).model = AutoModelForCausalLM.from_pretrained(demo_model)

    def logprobs_of(
        self, prompt: Sequence[int], output: Sequence[int], temperature: float
    ) -> Sequence[float]:
        import torch

        with torch.no_grad():
            ids = torch.tensor([[*prompt, *output]])
            logits = self.model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        logprobs = torch.log_softmax(logits.float() / temperature, dim=-1)
        found: list[float] = logprobs[range(len(output)), list(output)].tolist()
        return found


@pytest.mark.slow
class TestTransformersEngine(OverTheDemo):
    def make_engine(self) -> Any:
        from retrain.engine.transformers_engine import TransformersEngine

        return TransformersEngine(self.model, max_slots=8, max_seq_len=256, eviction_grace=0.0)


@pytest.mark.slow
class TestTransformersEngineWithTwoSlots(OverTheDemo):
    """More sessions than slots: histories are thrown out and computed again."""

    def make_engine(self) -> Any:
        from retrain.engine.transformers_engine import TransformersEngine

        return TransformersEngine(self.model, max_slots=2, max_seq_len=256, eviction_grace=0.0)


@pytest.mark.slow
class TestSGLangEngineOverTheEmbeddedServer(OverTheDemo):
    @pytest.fixture(scope="class")
    def url(self, demo_model: Path) -> Iterator[str]:
        for package in ("fastapi", "uvicorn", "aiohttp"):
            pytest.importorskip(package, reason="needs pip install 'retrain[serve,http]'")
        from server_here import serving

        with serving(demo_model) as url:
            yield url

    @pytest.fixture
    def fresh_engine(self, url: str) -> Any:
        from retrain.engine.sglang_engine import SGLangEngine

        return lambda: SGLangEngine(url)
