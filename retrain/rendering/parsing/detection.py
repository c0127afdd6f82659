"""`tool_format: auto`: the parser that reads back what the template writes."""

from __future__ import annotations

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.parsing.registry import PARSERS
from retrain.rendering.template import ChatTemplate
from retrain.types import Message, ToolCall

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
    if not whole.startswith(prompt):
        return None
    written = whole[len(prompt) :]
    ends = [written.find(text) for text in stop_texts if text in written]
    text = written[: min(ends, default=len(written))]
    readers = (name for name, parser in PARSERS.items() if parser(text).tool_calls == (_CALL,))
    return next(readers, None)
