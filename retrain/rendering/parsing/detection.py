"""`tool_format: auto`: the parser that reads back what the template writes."""

from __future__ import annotations

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.parsing.registry import PARSERS
from retrain.rendering.tail import shared_prefix
from retrain.rendering.template import ChatTemplate
from retrain.types import Action, Message, ToolCall

_UNTYPED = {"word": 'a "quoted" word', "depth": '{"least": [1, 2.5, null, true]}'}
_CALL = ToolCall("lookup", {"word": 'a "quoted" word', "depth": {"least": [1, 2.5, None, True]}})


def detect_format(
    template: ChatTemplate, tools: tuple[ToolSchema, ...], stop_texts: tuple[str, ...]
) -> str | None:
    """Find the parser of a template's tool calls.

    A call is rendered through the template and read with each parser.

    Args:
        template: Renders the call.
        tools: The tools of the test conversation.
        stop_texts: The texts of the stop tokens.

    Returns:
        The parser's name; None where the template writes no calls or no parser reads them.
    """
    question = Message("user", "What does it mean?")
    answer = Message("assistant", tool_calls=(_CALL,))
    try:
        prompt = template.render((question,), tools, generation_prompt=True)
        whole = template.render((question, answer), tools, generation_prompt=False)
    except RenderingFailure:
        return None
    written = whole[len(shared_prefix(prompt, whole)) :]
    ends = [written.find(text) for text in stop_texts if text in written]
    text = written[: min(ends, default=len(written))]
    return next((name for name, parser in PARSERS.items() if _reads(parser(text))), None)


def _reads(action: Action) -> bool:
    """Whether a turn was read as the call; formats without types leave values as text."""
    if len(action.tool_calls) != 1 or action.parse_error is not None:
        return False
    read = action.tool_calls[0]
    return read.name == _CALL.name and read.arguments in (_CALL.arguments, _UNTYPED)
