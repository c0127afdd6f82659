"""Renderers with one fault each; run by test_kit_catches.py, and not collected otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrain.rendering import DeltaRenderer
from retrain.testing import RendererSuite
from retrain.testing.tokenizer import kit_renderer, kit_tokenizer
from retrain.types import Action, Message


class TestRight(RendererSuite):
    def make_renderer(self) -> DeltaRenderer:
        return kit_renderer()


class Wrong:
    """A renderer before the right one; subclasses spoil a method."""

    def __init__(self) -> None:
        self.inner = kit_renderer()
        self.prompt: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def first(self, messages: Sequence[Message], tools: Any = ()) -> list[int]:
        return self.inner.first(messages, tools)

    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        return self.inner.delta(action, messages, last_id, tools)

    def parse(self, output_ids: Sequence[int]) -> Any:
        return self.inner.parse(output_ids)


class RendersItAllAgain(Wrong):
    def first(self, messages: Sequence[Message], tools: Any = ()) -> list[int]:
        self.prompt = self.inner.first(messages, tools)
        return list(self.prompt)

    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        return [*self.prompt, *super().delta(action, messages, last_id, tools)]


class TestRendersItAllAgain(RendererSuite):
    def make_renderer(self) -> Any:
        return RendersItAllAgain()


class Unguarded(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        ids = super().delta(action, messages, last_id, tools)
        return kit_tokenizer().encode(self.inner.decode(ids))


class TestUnguarded(RendererSuite):
    def make_renderer(self) -> Any:
        return Unguarded()


class DropsForgedTokens(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        controls = [token.content for token in kit_tokenizer().added_tokens_decoder.values()]
        clean = []
        for message in messages:
            text = message.content
            for control in controls:
                text = text.replace(control, "")
            clean.append(Message(message.role, text, name=message.name))
        return super().delta(action, clean, last_id, tools)


class TestDropsForgedTokens(RendererSuite):
    def make_renderer(self) -> Any:
        return DropsForgedTokens()


class DoublesTheTerminator(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        ids = super().delta(action, messages, last_id, tools)
        return ids if last_id in self.stop_token_ids else [ids[0], *ids]


class TestDoublesTheTerminator(RendererSuite):
    def make_renderer(self) -> Any:
        return DoublesTheTerminator()


class NeverEndsACutTurn(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        stop = min(self.stop_token_ids)
        return [*super().delta(action, messages, stop, tools)][1:]


class TestLosesALineBreak(RendererSuite):
    def make_renderer(self) -> Any:
        return NeverEndsACutTurn()


class LastResultFirst(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        return super().delta(action, tuple(messages)[::-1], last_id, tools)


class TestResultsReversed(RendererSuite):
    def make_renderer(self) -> Any:
        return LastResultFirst()


class OneResult(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        calls = action.tool_calls[:1]
        return super().delta(Action(action.text, tool_calls=calls), messages[:1], last_id, tools)


class TestOneResultOnly(RendererSuite):
    def make_renderer(self) -> Any:
        return OneResult()


class ParseRaises(Wrong):
    def parse(self, output_ids: Sequence[int]) -> Any:
        import json

        text = self.inner.decode(output_ids)
        if "<tool_call>" in text:
            json.loads(text.partition("<tool_call>")[2].partition("</tool_call>")[0])
        return self.inner.parse(output_ids)


class TestParseRaises(RendererSuite):
    def make_renderer(self) -> Any:
        return ParseRaises()


class KeepsTheStopToken(Wrong):
    def parse(self, output_ids: Sequence[int]) -> Any:
        return Action(self.inner.decode(output_ids))


class TestKeepsTheStopToken(RendererSuite):
    def make_renderer(self) -> Any:
        return KeepsTheStopToken()


class FirstCallOnly(Wrong):
    def parse(self, output_ids: Sequence[int]) -> Any:
        action = self.inner.parse(output_ids)
        return Action(action.text, tool_calls=action.tool_calls[:1])


class TestFirstCallOnly(RendererSuite):
    def make_renderer(self) -> Any:
        return FirstCallOnly()


class Ascii(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        plain = [
            Message(m.role, m.content.encode("ascii", "replace").decode(), name=m.name)
            for m in messages
        ]
        return super().delta(action, plain, last_id, tools)


class TestAsciiOnly(RendererSuite):
    def make_renderer(self) -> Any:
        return Ascii()


class Counts(Wrong):
    """Numbers its replies, as a template with a counter of its own would."""

    count = 0

    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        self.count += 1
        ids = super().delta(action, messages, last_id, tools)
        return [*ids, *kit_tokenizer().encode(str(self.count))]


class TestCountsReplies(RendererSuite):
    def make_renderer(self) -> Any:
        return Counts()


class AnyRole(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        users = [Message("user", message.content) for message in messages]
        return super().delta(action, users, last_id, tools)


class TestTakesAnyRole(RendererSuite):
    def make_renderer(self) -> Any:
        return AnyRole()


class NoTools(Wrong):
    def first(self, messages: Sequence[Message], tools: Any = ()) -> list[int]:
        return self.inner.first(messages)


class TestHidesTheTools(RendererSuite):
    def make_renderer(self) -> Any:
        return NoTools()


class FirstMessageOnly(Wrong):
    def first(self, messages: Sequence[Message], tools: Any = ()) -> list[int]:
        return self.inner.first([m for m in messages if m.role != "system"], tools)


class TestLosesTheSystemPrompt(RendererSuite):
    def make_renderer(self) -> Any:
        return FirstMessageOnly()


class RaisesOnBlank(Wrong):
    def delta(self, action: Any, messages: Any, last_id: int, tools: Any = ()) -> list[int]:
        for message in messages:
            message.content.split()[0]
        return super().delta(action, messages, last_id, tools)


class TestRaisesOnBlank(RendererSuite):
    def make_renderer(self) -> Any:
        return RaisesOnBlank()


class NoStops(Wrong):
    stop_token_ids = frozenset({999_999})
    pad_token_id = None


class TestNoPadToken(RendererSuite):
    def make_renderer(self) -> Any:
        return NoStops()
