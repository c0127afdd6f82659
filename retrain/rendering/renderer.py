"""`DeltaRenderer`: messages to tokens by deltas, and sampled tokens to actions."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.base import HistoryMode
from retrain.rendering.continuation import continuation
from retrain.rendering.decoding import is_byte_level, make_decode
from retrain.rendering.delta import DeltaText
from retrain.rendering.guard import Guard
from retrain.rendering.parsing.detection import detect_format
from retrain.rendering.parsing.registry import parser_named
from retrain.rendering.reading import TurnReader
from retrain.rendering.self_check import SelfCheck
from retrain.rendering.shape import LOOKUP_TOOL, Shape
from retrain.rendering.stops import pad_token, stop_set, vocabulary
from retrain.rendering.template import ChatTemplate, ChatTokenizer
from retrain.rendering.turn import TurnText
from retrain.rendering.whole import WholeText
from retrain.types import Action, Message
from retrain.vision.base import (
    NO_PROCESSOR,
    NoVision,
    Vision,
    VisionProcessor,
    shown_images,
    with_images,
)


class DeltaRenderer:
    """Renders through the model's own template; what the model sampled is never rendered again.

    The first prompt is rendered whole. A reply is rendered alone, as the delta that it appends, so
    the cost of a turn does not depend on the turns before it. With `history="template"` every
    prompt is rendered whole, and what of it continues the stream is appended.

    Attributes:
        history: How the prompts of later turns are made.
        tool_format: The name of the parser in use.
        template: The chat template, with the date that it is given.
        vision: The model's image processor, or why it has none.
    """

    def __init__(
        self,
        tokenizer: ChatTokenizer,
        *,
        tool_format: str = "auto",
        stop_token_ids: Iterable[int] = (),
        generation_config_eos: int | Iterable[int] | None = None,
        date: datetime.date | None = None,
        template_options: Mapping[str, Any] | None = None,
        history: HistoryMode = "keep",
        vision: Vision = NO_PROCESSOR,
    ) -> None:
        """Study a tokenizer and its template; `check_report` is the self-check.

        Args:
            tokenizer: A fast tokenizer of transformers, or anything alike.
            tool_format: A parser's name; "auto" takes the one that reads the template's calls.
            stop_token_ids: Stop tokens beside those that the model's files name.
            generation_config_eos: `eos_token_id` of the model's generation config.
            date: The day for templates that ask for it; today where None.
            template_options: Variables that the template reads, such as `enable_thinking`.
            history: Append replies, or render the whole conversation every turn.
            vision: The model's image processor, or why there is none.

        Raises:
            ConfigError: The tokenizer has no chat template or an unreadable one, no stop token or
                no token to pad with, or there is no such tool format.
        """
        self.history: HistoryMode = history
        self.vision: Vision = vision
        self.template = ChatTemplate(tokenizer, date=date, options=template_options)
        self._tokenizer = tokenizer
        self._decode = make_decode(tokenizer)
        self._stops = stop_set(tokenizer, generation_config_eos, stop_token_ids)
        self._pad = pad_token(tokenizer)
        words = vocabulary(tokenizer, self._stops)
        self._deltas = DeltaText(self.template, Guard(tokenizer), words)
        self._whole = WholeText(self.template, self._deltas.guard)
        found = self._deltas.terminators.values()
        ends = self._stops | {terminator.id for terminator in found}
        self._openers = frozenset(terminator.id for terminator in found if terminator.opens)
        self._closers = self._stops - self._openers
        detected = detect_format(self.template, (LOOKUP_TOOL,), (*words.stops, *self.terminators))
        self.tool_format = (detected or "plain") if tool_format == "auto" else tool_format
        self._turns = TurnText(self.template, self._deltas, words)
        prefix = self._turns.thinking_prefix()
        self._reader = TurnReader(parser_named(self.tool_format), self._decode, ends, prefix)
        self._check = SelfCheck(
            self.template,
            self._deltas,
            self._whole,
            self._turns,
            self._reader,
            readable=tool_format != "auto" or detected is not None,
        )

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """Tokens that end an assistant turn."""
        return self._stops

    @property
    def image_processor(self) -> VisionProcessor | None:
        """The model's image processor; None where there is none."""
        return None if isinstance(self.vision, NoVision) else self.vision

    @property
    def pad_token_id(self) -> int:
        """A token to pad and to fill placeholders with."""
        return self._pad

    @property
    def terminators(self) -> tuple[str, ...]:
        """The tokens with which the template ends assistant turns."""
        found = self._deltas.terminators.values()
        return tuple(dict.fromkeys(terminator.text for terminator in found))

    @property
    def check_report(self) -> dict[str, str | None]:
        """The self-check: each standard kind of reply with the template's fault.

        None stands where the template is exact. What has a fault is refused when an episode needs
        it, and nothing else is.
        """
        return self._check.report(self.history)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is exact but looks wrong, for the dry run to show."""
        missing = [found.text for found in self._deltas.terminators.values() if not found.stops]
        return tuple(
            f"the chat template ends an assistant turn with {text!r}, which is no stop token: the "
            "model would write on behind it; add its id to rendering.stop_token_ids"
            for text in dict.fromkeys(missing)
        )

    def first(self, messages: Sequence[Message], tools: Sequence[ToolSchema] = ()) -> list[int]:
        """The ids of a whole first prompt, generation prompt included.

        Args:
            messages: The prompt; it is trusted, so control tokens in it count as such.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template refuses the messages, or cannot show the tools.
        """
        return self.whole(messages, messages, tools)

    def delta(
        self,
        action: Action,
        messages: Sequence[Message],
        last_id: int,
        tools: Sequence[ToolSchema] = (),
    ) -> list[int]:
        """The ids that a reply appends after a sampled turn, next generation prompt included.

        Args:
            action: The turn that `messages` reply to.
            messages: The reply; control tokens in it stay text.
            last_id: The last id of that turn. Where it ended the turn, the template's own
                terminator is left out, unless that one is a role marker other than it.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template cannot express the reply exactly.
        """
        images = shown_images(messages, self.vision)
        shape = Shape.of(action, messages, tools)
        expected = self._check.require_delta(shape)
        delta = self._deltas.render(action.tool_calls, messages, tools)
        found = self._deltas.guard.controls(delta.ids)
        if found != expected:
            raise RenderingFailure(
                f"{shape.name}: the rendered reply holds the control tokens {list(found)} where "
                f"such a reply holds {list(expected)}"
            )
        ids = delta.ids[1:] if self._ended(last_id, delta.terminator.id) else delta.ids
        return with_images(ids, images, self.vision)

    def whole(
        self,
        messages: Sequence[Message],
        trusted: Sequence[Message] = (),
        tools: Sequence[ToolSchema] = (),
    ) -> list[int]:
        """The ids of a whole conversation, generation prompt included.

        Args:
            messages: The conversation; control tokens in it stay text.
            trusted: Messages whose control tokens count as such: those of the first prompt.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template refuses the conversation, cannot show the tools, or drops
                or changes what the model did not write.
        """
        if tools:
            self._check.require_tools()
        images = shown_images(messages, self.vision)
        shape = Shape.at_the_end(messages, tools) if self.history == "template" else None
        if shape is not None:
            self._check.require_whole(shape)
        return with_images(self._whole.ids(messages, trusted, tools), images, self.vision)

    def continuation(self, stream: Sequence[int], whole: Sequence[int]) -> list[int] | None:
        """What a whole conversation adds to a stream; None where it is not what stands in it.

        Args:
            stream: The stream so far; its ids stay, whatever tokens its text would be written in.
            whole: The ids of the conversation, as `whole` gives them.
        """
        return continuation(stream, whole, self._deltas.guard.control_ids, self.decode)

    def message(self, action: Action, output_ids: Sequence[int]) -> Message:
        """A sampled turn as the message that stands for it in a whole conversation.

        Args:
            action: What was read in the turn.
            output_ids: The turn; where a call in it cannot be read, its text is the content.
        """
        return self._reader.message(action, output_ids)

    def turn(
        self, history: Sequence[Message], message: Message, tools: Sequence[ToolSchema] = ()
    ) -> list[int]:
        """The ids that the model would have sampled to write `message`, its stop token included.

        Args:
            history: The conversation before it.
            message: An assistant message.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template does not write the message behind the prompt that it
                makes of the history, or does not end it.
        """
        return self._turns.ids(history, message, tools)

    def parse(self, output_ids: Sequence[int]) -> Action:
        """Read a sampled turn. What cannot be read becomes `Action.parse_error`, never raises."""
        return self._reader.action(output_ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens included."""
        return self._decode(ids)

    @property
    def decodes_bytes(self) -> bool:
        """Whether every token has fixed bytes, which `decode` reads as UTF-8."""
        return is_byte_level(self._tokenizer)

    def text(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens left out."""
        return self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def _ended(self, last_id: int, terminator: int) -> bool:
        """Whether the sampled turn needs no terminator of the template's."""
        plain = last_id in self._closers and terminator not in self._openers
        return last_id == terminator or plain


def load_renderer(
    tokenizer: ChatTokenizer,
    *,
    tool_format: str = "auto",
    stop_token_ids: Iterable[int] = (),
    generation_config_eos: int | Iterable[int] | None = None,
    date: datetime.date | None = None,
    template_options: Mapping[str, Any] | None = None,
    history: HistoryMode = "keep",
    vision: Vision = NO_PROCESSOR,
) -> DeltaRenderer:
    """Make a renderer and run its self-check; arguments and errors as `DeltaRenderer`'s."""
    renderer = DeltaRenderer(
        tokenizer,
        tool_format=tool_format,
        stop_token_ids=stop_token_ids,
        generation_config_eos=generation_config_eos,
        date=date,
        template_options=template_options,
        history=history,
        vision=vision,
    )
    _ = renderer.check_report
    return renderer
