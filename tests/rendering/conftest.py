import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import real_tokenizers

MakeTokenizer = Callable[[str], Any]


@pytest.fixture(scope="session")
def cache_dir(pytestconfig: pytest.Config) -> Path:
    assert pytestconfig.cache is not None
    return Path(pytestconfig.cache.mkdir("tokenizers"))


@pytest.fixture(scope="session")
def qwen(cache_dir: Path) -> MakeTokenizer:
    """Qwen's tokenizer with the named chat template."""
    return _copies(real_tokenizers.qwen_tokenizer(cache_dir))


@pytest.fixture(scope="session")
def llama(cache_dir: Path) -> MakeTokenizer:
    """Llama 3's tokenizer with the named chat template."""
    return _copies(real_tokenizers.llama3_tokenizer(cache_dir))


@pytest.fixture(scope="session")
def marked(cache_dir: Path) -> MakeTokenizer:
    """Qwen's vocabulary with any named template and all the control tokens that it names."""
    tokenizer = real_tokenizers.qwen_tokenizer(cache_dir)
    texts = [real_tokenizers.chat_template(name) for name in real_tokenizers.template_names()]
    wanted = [marker for text in texts for marker in real_tokenizers.markers(text)]
    real_tokenizers.with_markers(tokenizer, ["<bos>", "</s>", *wanted])
    tokenizer.bos_token = "<bos>"
    tokenizer.eos_token = "<|endoftext|>"
    return _copies(tokenizer)


def _copies(tokenizer: Any) -> MakeTokenizer:
    def make(template: str) -> Any:
        copied = copy.copy(tokenizer)
        copied._special_tokens_map = dict(tokenizer._special_tokens_map)
        copied.chat_template = real_tokenizers.chat_template(template)
        return copied

    return make
