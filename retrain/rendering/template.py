"""`ChatTemplate`: the model's own template, rendered to text with a pinned date."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import Any, Protocol

from retrain.environment.base import ToolSchema
from retrain.errors import ConfigError, RenderingFailure
from retrain.rendering.conversation import MessageDict, conversation
from retrain.types import Message


class ChatTokenizer(Protocol):
    """What rendering needs of a tokenizer; transformers' fast tokenizers have it."""

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """Every added token by id, with its text in `content` and whether it is `special`."""
        ...

    @property
    def eos_token_id(self) -> int | None:
        """The end-of-sequence token."""
        ...

    @property
    def pad_token_id(self) -> int | None:
        """The padding token."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Text to ids."""
        ...

    def decode(
        self,
        token_ids: list[int],
        *,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        """Ids to text."""
        ...

    def get_chat_template(self, chat_template: str | None = None, tools: Any = None) -> str:
        """The template's text."""
        ...

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Render a conversation."""
        ...


class ChatTemplate:
    """A tokenizer's chat template.

    Attributes:
        date: The day that templates calling `strftime_now` are given.
    """

    def __init__(
        self,
        tokenizer: ChatTokenizer,
        *,
        date: datetime.date | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap a tokenizer's template.

        Args:
            tokenizer: Brings the template.
            date: The day to pin; today where None.
            options: Variables that the template reads, such as `enable_thinking`.

        Raises:
            ConfigError: The tokenizer has no chat template.
        """
        from jinja2 import TemplateError, TemplateSyntaxError

        self.date = date or datetime.date.today()
        self._tokenizer = tokenizer
        self._options = dict(options or {})
        self._failures = (TemplateError, *_FAILURES)
        self._syntax_error = TemplateSyntaxError
        self._texts = {with_tools: self._text(with_tools) for with_tools in (False, True)}

    def _text(self, with_tools: bool) -> str:
        try:
            text = self._tokenizer.get_chat_template(None, [{}] if with_tools else None)
        except (ValueError, AttributeError) as error:
            raise ConfigError(
                "the tokenizer has no chat template: name an instruction-tuned model, or put a "
                "chat_template.jinja into the model's folder"
            ) from error
        return _pinned(self.date) + text if "strftime_now" in text else text

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        *,
        generation_prompt: bool,
    ) -> str:
        """Render a whole conversation to text.

        Args:
            messages: The conversation from its beginning.
            tools: The tools that the prompt shows.
            generation_prompt: Whether the text ends with the opening of an assistant turn.

        Raises:
            RenderingFailure: The template refuses the messages.
            ConfigError: The template is no valid Jinja.
        """
        return self.render_dicts(conversation(messages), tools, generation_prompt=generation_prompt)

    def render_dicts(
        self,
        messages: Sequence[MessageDict],
        tools: Sequence[ToolSchema] = (),
        *,
        generation_prompt: bool,
    ) -> str:
        """Render messages that are in the template's form already; else as `render`."""
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages),
                tools=[dict(tool) for tool in tools] or None,
                chat_template=self._texts[bool(tools)],
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **self._options,
            )
        except self._syntax_error as error:
            raise ConfigError(
                f"the chat template cannot be read: line {error.lineno}: {error.message}"
            ) from error
        except self._failures as error:
            raise RenderingFailure(
                f"the chat template refuses these messages ({_roles(messages)}): "
                f"{type(error).__name__}: {error}"
            ) from error
        return str(text)


_FAILURES = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a template's own expressions can raise, next to jinja2's errors."""


def _roles(messages: Sequence[MessageDict]) -> str:
    return ", ".join(str(message["role"]) for message in messages)


def _pinned(date: datetime.date) -> str:
    """A macro that stands in for transformers' `strftime_now` and always tells the same day.

    A template's own definitions win over transformers' globals; a function cannot be passed in,
    since transformers replaces callables among the variables by a placeholder.
    """
    moment = datetime.datetime.combine(date, datetime.time())
    directives = [f"%{flag}{letter}" for flag in ("", "-") for letter in ascii_letters]
    known = {text: moment.strftime(text) for text in directives}
    replaced = "".join(
        f"|replace({json.dumps(text)},{json.dumps(value)})"
        for text, value in known.items()
        if value != text
    )
    return "{%- macro strftime_now(format) -%}{{- format" + replaced + " -}}{%- endmacro -%}"
