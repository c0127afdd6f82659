from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from real_tokenizers import qwen_tokenizer

from retrain.rendering import DeltaRenderer, load_renderer


@pytest.fixture(scope="session")
def tokenizer(pytestconfig: pytest.Config) -> Any:
    return qwen_tokenizer(pytestconfig.cache.mkdir("tokenizers"))


@pytest.fixture(scope="session")
def renderer(tokenizer: Any) -> DeltaRenderer:
    return load_renderer(tokenizer)


@pytest.fixture
def encode(tokenizer: Any) -> Callable[[str], list[int]]:
    return lambda text: tokenizer.encode(text, add_special_tokens=False)
