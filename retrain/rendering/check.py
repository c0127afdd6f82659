"""The self-check: is the delta of a reply the end of what the template itself would render?

Every shape of reply is rendered behind several histories, of one and of two rounds, with tool and
user turns and with reasoning. What differs is refused for that shape alone, with the template's
fault named. Where whole conversations are rendered instead (`rendering.history: template`), they
must hold everything that was said, and what is read in a turn must render as the turn did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.delta import Delta, DeltaText
from retrain.rendering.shape import Shape
from retrain.rendering.tail import shared_prefix
from retrain.rendering.template import ChatTemplate
from retrain.rendering.whole import WholeText
from retrain.types import Message, ToolCall

_WITNESS = "Wq3jXz7cKv"
_QUESTION = Message("user", "What does it mean?")
_TOOL_ROUND = (
    Message("assistant", tool_calls=(ToolCall("lookup", {"word": "earlier"}),)),
    Message("tool", "An earlier result."),
)
_USER_ROUND = (Message("assistant", "An earlier answer."), Message("user", "And then?"))


def check_shape(template: ChatTemplate, deltas: DeltaText, shape: Shape) -> tuple[int, ...]:
    """Check that replies of a shape can be appended exactly.

    Args:
        template: Renders the real conversations.
        deltas: Renders the reply alone.
        shape: The kind of reply.

    Returns:
        The control tokens that every reply of the shape appends, in order.

    Raises:
        RenderingFailure: Naming what the template does wrong.
    """
    delta = deltas.render(shape.tool_calls("word"), shape.reply(_WITNESS), shape.schemas)
    for round_number, history in _histories(shape, True in deltas.terminators):
        for reasoning in ("", "Let me think."):
            _compare(template, delta, shape, (*history, _turn(shape, reasoning)), round_number)
    return deltas.guard.controls(delta.ids)


def check_whole(
    whole: WholeText,
    read_back: Callable[[Sequence[Message], Message, Sequence[ToolSchema]], Message],
    shape: Shape,
    *,
    tool_rounds: bool,
) -> None:
    """Check that conversations that end with a shape of reply can be rendered whole.

    Args:
        whole: Renders them.
        read_back: What is read in the turn that the model would sample to write a message, given
            what stands before it; raises where the template writes no such turn.
        shape: The kind of reply.
        tool_rounds: Whether the template can write a round of tool calls before it.

    Raises:
        RenderingFailure: Naming what the template does wrong, or what is not read as it is written.
    """
    reply, tools = shape.reply(_WITNESS), shape.schemas
    for _, history in _histories(shape, tool_rounds):
        for reasoning in ("", "Let me think."):
            turn = _turn(shape, reasoning)
            rendered = whole.ids((*history, turn, *reply), tools=tools)
            try:
                read = read_back(history, turn, tools)
            except RenderingFailure:
                continue
            if _again(whole, (*history, read, *reply), tools) != rendered:
                raise RenderingFailure(
                    "what the chat template writes of a turn is not what is read in it: set "
                    "rendering.tool_format to the format that the template uses"
                )


def _again(
    whole: WholeText, messages: Sequence[Message], tools: Sequence[ToolSchema]
) -> list[int] | None:
    try:
        return whole.ids(messages, tools=tools)
    except RenderingFailure:
        return None


def check_tools(template: ChatTemplate, tools: Sequence[ToolSchema]) -> None:
    """Check that a prompt shows the tools of the episode.

    Raises:
        RenderingFailure: The template leaves them out.
    """
    text = template.render((_QUESTION,), tools, generation_prompt=True)
    if "lookup" not in text:
        raise RenderingFailure("the chat template leaves out the tools")


def _turn(shape: Shape, reasoning: str) -> Message:
    calls = shape.tool_calls("word")
    return Message("assistant", "" if calls else "An answer.", reasoning, calls)


def _histories(shape: Shape, tool_rounds: bool) -> Iterator[tuple[int, tuple[Message, ...]]]:
    """Histories of one to three rounds, each with the number of the round that follows it."""
    yield 1, (_QUESTION,)
    yield 2, (_QUESTION, *_USER_ROUND)
    if shape.roles:
        yield 2, (_QUESTION, _turn(shape, ""), *shape.reply("earlier"))
    if shape.tools and tool_rounds:
        yield 2, (_QUESTION, *_TOOL_ROUND)
        yield 3, (_QUESTION, *_TOOL_ROUND, *_USER_ROUND)
        yield 3, (_QUESTION, *_USER_ROUND, *_TOOL_ROUND)


def _compare(
    template: ChatTemplate,
    delta: Delta,
    shape: Shape,
    history: tuple[Message, ...],
    round_number: int,
) -> None:
    messages = (*history, *shape.reply(_WITNESS))
    real = template.render(messages, shape.schemas, generation_prompt=True)
    if real.endswith(delta.text):
        return
    shared = len(shared_prefix(real[::-1], delta.text[::-1]))
    raise RenderingFailure(
        f"in round {round_number} the chat template writes "
        f"{real[max(0, len(real) - shared - 40) : len(real) - shared + 10]!r} where the reply "
        f"alone has {delta.text[: len(delta.text) - shared + 10][-50:]!r}"
    )
