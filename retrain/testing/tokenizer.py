"""A small tokenizer with a chat template, so that the kit needs no model and no transformers.

Its vocabulary is 256 bytes, some words and some control tokens. Text is cut into the longest words
that are known, and into bytes where none is: a character outside ASCII is several tokens, and any
word can also be written as bytes, which is how odd tokenizations are made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from retrain.rendering import DeltaRenderer, load_renderer

CHAT_TEMPLATE = """\
{%- if tools -%}
<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}You may call these tools:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% elif messages[0].role == 'system' -%}
<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
<|im_start|>assistant
{{ message.content }}
{%- for call in message.tool_calls or [] %}
{{- '\\n' if message.content or not loop.first }}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
<|im_end|>
{% elif message.role == 'tool' -%}
<|im_start|>tool
{{ message.content }}<|im_end|>
{% elif message.role != 'system' or not loop.first -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""
"""ChatML with Hermes tool calls."""

_CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>")
_WORDS = (
    *("system", "user", "assistant", "tool", '{"name": "', '"arguments": ', "lookup", "word"),
    *(
        "The ",
        "answer",
        " is ",
        " the ",
        " of ",
        "and ",
        " over",
        "go on",
        "yes",
        "no",
        "and",
        "ing",
    ),
    *("th", "er", "in", "on", "an", "re", "ou", ". ", ", ", "\n\n", "  "),
)


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A control token.

    Attributes:
        content: Its text.
        special: Whether it is left out where special tokens are.
    """

    content: str
    special: bool


class KitTokenizer:
    """What rendering needs of a tokenizer, in pure Python.

    Attributes:
        vocabulary: How many ids there are.
        eos_token_id: The id of `<|im_end|>`.
        pad_token_id: The id of `<|endoftext|>`.
        added_tokens_decoder: The control tokens by id.
    """

    def __init__(self) -> None:
        texts = [*(bytes([value]) for value in range(256)), *(word.encode() for word in _WORDS)]
        first = len(texts)
        self._bytes = [*texts, *(token.encode() for token in (*_CONTROL, *_TAGS))]
        self._words = {text: number for number, text in enumerate(self._bytes[:first])}
        self._longest = max(map(len, self._words))
        self._added = {text: first + n for n, text in enumerate((*_CONTROL, *_TAGS))}
        self._cut = re.compile(f"({'|'.join(map(re.escape, self._added))})")
        self.vocabulary = len(self._bytes)
        self.pad_token_id = self._added["<|endoftext|>"]
        self.eos_token_id = self._added["<|im_end|>"]
        self.added_tokens_decoder: Mapping[int, AddedToken] = {
            index: AddedToken(text, text in _CONTROL) for text, index in self._added.items()
        }

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Text to ids; control tokens in it count as such, and none is added."""
        ids: list[int] = []
        for piece in self._cut.split(text):
            ids += [self._added[piece]] if piece in self._added else self._plain(piece.encode())
        return ids

    def decode(
        self,
        token_ids: Sequence[int],
        *,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        """Ids to text; bytes that are no UTF-8 become U+FFFD."""
        added = self.added_tokens_decoder
        kept = (
            i for i in token_ids if not (skip_special_tokens and i in added and added[i].special)
        )
        return b"".join(self._bytes[i] for i in kept).decode(errors="replace")

    def get_chat_template(self, chat_template: str | None = None, tools: Any = None) -> str:
        """The template's text."""
        return CHAT_TEMPLATE if chat_template is None else chat_template

    def apply_chat_template(self, conversation: Any, **options: Any) -> str:
        """Render a conversation to text."""
        text = str(options.pop("chat_template", None) or CHAT_TEMPLATE)
        return str(_compiled(text).render(messages=conversation, **options))

    def _plain(self, text: bytes) -> list[int]:
        ids: list[int] = []
        at = 0
        while at < len(text):
            lengths = range(min(self._longest, len(text) - at), 0, -1)
            length = next(n for n in lengths if text[at : at + n] in self._words)
            ids.append(self._words[text[at : at + length]])
            at += length
        return ids


@cache
def _compiled(text: str) -> Any:
    world = ImmutableSandboxedEnvironment()
    world.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return world.from_string(text)


@cache
def kit_tokenizer() -> KitTokenizer:
    """The kit's tokenizer, made once."""
    return KitTokenizer()


@cache
def kit_renderer() -> DeltaRenderer:
    """The renderer over the kit's tokenizer, checked once."""
    return load_renderer(kit_tokenizer())
