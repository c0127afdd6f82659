"""gpt-oss's format, "harmony": reasoning, calls and the answer are messages of their own."""

from __future__ import annotations

from retrain.rendering.parsing.call import UnreadableCall, read_object
from retrain.rendering.parsing.channels import Part, joined, split_channels
from retrain.types import Action, ToolCall

_NAMESPACE = "functions."


def parse_harmony(text: str) -> Action:
    """Read a turn in harmony's format.

    `analysis` is reasoning, a message to a tool is a call, and anything else is the text. A turn
    without any header is text.
    """
    reasoning, texts = list[str](), list[str]()
    calls, errors = list[ToolCall](), list[str]()
    for part in split_channels(text):
        if part.recipient and part.recipient != "user":
            try:
                calls.append(_call(part))
            except UnreadableCall as error:
                errors.append(f"tool call {len(calls) + len(errors) + 1}: {error}")
        elif not part.whole:
            texts += [] if "<|channel|>" in part.header else [part.header]
        elif "analysis" in part.header:
            reasoning.append(part.body)
        else:
            texts.append(part.body)
    return Action(joined(texts), joined(reasoning), tuple(calls), "; ".join(errors) or None)


def _call(part: Part) -> ToolCall:
    name = part.recipient.removeprefix(_NAMESPACE)
    if not part.whole:
        raise UnreadableCall(f"the call of {name} breaks off before <|message|>")
    arguments, end = read_object(part.body, 0)
    if part.body[end:].strip():
        raise UnreadableCall(f"there is text behind the arguments of {name}")
    return ToolCall(name, arguments)
