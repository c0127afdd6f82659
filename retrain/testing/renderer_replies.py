"""Tests about the tokens of a prompt and of a reply."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from retrain.errors import RenderingFailure
from retrain.rendering.base import Renderer
from retrain.testing.renderer_hooks import (
    ANSWER,
    FORGED,
    QUESTION,
    TOOLS,
    RendererHooks,
    calls,
    first,
    reply,
    stop_of,
)
from retrain.testing.wording import fail, raised, require
from retrain.types import Action, Message

_UNICODE = (
    "漢字 and 🙂🙃",
    "naïve café",
    "👩\u200d👩\u200d👧 family",
    "עברית ⟨math⟩ ∑",
    "tab\there",
    "a\n\n\nb",
)
_BLANK = ("", " ", "\n\n", "\t \n")
_PLAIN = "harmless words"


class ReplyTests(RendererHooks):
    """A prompt says all that it is given, and a reply says that and nothing else."""

    def test_stop_and_pad_tokens_are_known(self, renderer: Renderer) -> None:
        """There is a token that ends turns and one to pad with."""
        stops, pad = renderer.stop_token_ids, renderer.pad_token_id
        require(
            bool(stops) and all(isinstance(index, int) for index in (*stops, pad)),
            "the stop tokens or the padding token are no ids",
            expected="at least one stop id, and a padding id",
            came=f"stops {stops}, padding {pad}",
        )

    def test_the_first_prompt_holds_its_messages(self, renderer: Renderer) -> None:
        """Every message of the prompt stands in it, in order."""
        messages = (Message("system", "Speak like a pirate."), QUESTION)
        text = renderer.decode(first(renderer, messages))
        _in_order(text, [message.content for message in messages], "the first prompt")

    def test_the_first_prompt_shows_the_tools(self, renderer: Renderer) -> None:
        """The model is told which tools there are."""
        self.require_tools()
        text = renderer.decode(first(renderer, (QUESTION,), tools=True))
        require("lookup" in text, "the prompt does not name the tool", expected="lookup", came=text)

    @pytest.mark.parametrize("kind", ["user", "tool"])
    def test_a_reply_holds_only_what_is_new(self, renderer: Renderer, kind: str) -> None:
        """What the model wrote, and what was said before, is not rendered again."""
        first(renderer, (QUESTION,))
        action = self._action(kind, "Let me look that up.")
        text = renderer.decode(reply(renderer, (Message(kind, "A marsupial."),), action))
        old = [part for part in (QUESTION.content, action.text, "quoll") if part in text]
        require(
            not old,
            "a reply renders again what stands in the stream already",
            expected="the new message only",
            came=f"{old} in {text!r}",
        )
        count = text.count("A marsupial.")
        came = f"{count} times in {text!r}"
        require(count == 1, "the new message is not there once", expected="once", came=came)

    def test_a_reply_does_not_depend_on_earlier_ones(self, renderer: Renderer) -> None:
        """A renderer serves all episodes at once, so it remembers none."""
        message = (Message("user", "And then?"),)
        alone = reply(renderer, message)
        first(renderer, (Message("user", "Something else."),))
        reply(renderer, (Message("user", "Another episode."),))
        renderer.parse(alone)
        again = reply(renderer, message)
        require(alone == again, "the same reply gets other tokens", expected=alone, came=again)

    @pytest.mark.parametrize("kind", ["user", "tool"])
    def test_a_turn_ends_once(self, renderer: Renderer, kind: str) -> None:
        """The template's terminator is added where nothing ended the turn, and only there."""
        action, message = self._action(kind, ANSWER), (Message(kind, "Yes."),)
        stopped = reply(renderer, message, action)
        plain = next(i for i in stopped if _is_text(renderer, i))
        cut = reply(renderer, message, action, last=plain)
        require(
            cut[len(cut) - len(stopped) :] == stopped and len(cut) - len(stopped) in (0, 1),
            "after a turn that a limit cut, the reply is not the usual one with its terminator",
            expected=f"at most one token more than {renderer.decode(stopped)!r}",
            came=repr(renderer.decode(cut)),
        )
        ends = [i for i in cut[:2] if i in renderer.stop_token_ids]
        require(
            len(cut) == len(stopped) or len(ends) == 1,
            "the end of a turn does not stand exactly once",
            expected="one token that ends it",
            came=repr(renderer.decode(cut[:4])),
        )

    @pytest.mark.parametrize("count", [2, 3])
    def test_tool_results_stand_in_order(self, renderer: Renderer, count: int) -> None:
        """Each result of parallel calls is there, in the order of the calls."""
        self.require_tools()
        texts = [f"result number {n}" for n in range(count)]
        action = Action(tool_calls=calls(*texts))
        ids = reply(renderer, [Message("tool", text, name="lookup") for text in texts], action)
        _in_order(renderer.decode(ids), texts, "the reply")

    @pytest.mark.parametrize("forged", FORGED)
    @pytest.mark.parametrize("kind", ["user", "tool"])
    def test_control_tokens_cannot_be_forged(
        self, renderer: Renderer, kind: str, forged: str
    ) -> None:
        """Control tokens in a reply's text stay text: the same tokens end turns as without."""
        word = forged or renderer.decode([stop_of(renderer)])
        action = self._action(kind, "")
        harmless = reply(renderer, (Message(kind, f"say {_PLAIN} end"),), action)
        evil = reply(renderer, (Message(kind, f"say {word} end"),), action)
        more = {i for i in evil if evil.count(i) > harmless.count(i)}
        controls = [renderer.decode([i]) for i in more if _is_control(renderer, i, word)]
        require(
            not controls,
            f"the text {word!r} in a {kind} message became control tokens",
            expected="plain text",
            came=controls,
        )
        said, text = f"say {word} end", renderer.decode(evil)
        require(said in text, "a forged token was dropped", expected=said, came=text)

    @pytest.mark.parametrize("text", _UNICODE)
    def test_text_comes_through(self, renderer: Renderer, text: str) -> None:
        """Characters of several tokens, and blanks inside a text, are kept."""
        came = renderer.decode(reply(renderer, (Message("user", text),)))
        require(text in came, "the reply has another text", expected=text, came=came)

    @pytest.mark.parametrize("blank", _BLANK)
    def test_blank_replies_are_rendered_or_refused(self, renderer: Renderer, blank: str) -> None:
        """A blank message still opens and ends; what the template drops is refused by name."""
        try:
            ids = reply(renderer, (Message("user", blank),))
        except Exception as error:  # noqa: BLE001 - every other exception is the finding
            raised("a blank reply failed", error, expected="tokens, or RenderingFailure")
        require(bool(ids), "a blank reply has no tokens", expected="a message's frame", came=ids)

    @pytest.mark.parametrize("role", ["assistant", "narrator"])
    def test_replies_of_the_model_s_own_are_refused(self, renderer: Renderer, role: str) -> None:
        """A reply is what the world says: nobody puts words into the model's mouth."""
        try:
            ids = renderer.delta(Action(ANSWER), (Message(role, "I agree."),), stop_of(renderer))
        except RenderingFailure:
            return
        fail(
            f"a reply with a message of role {role!r} was rendered",
            expected="RenderingFailure",
            came=repr(renderer.decode(ids)),
        )

    def test_a_tool_message_without_a_call_is_refused(self, renderer: Renderer) -> None:
        """It answers nothing, and many templates raise on it or drop it."""
        message = (Message("tool", "A marsupial."),)
        try:
            ids = renderer.delta(Action(ANSWER), message, stop_of(renderer), TOOLS)
        except RenderingFailure:
            return
        fail(
            "a tool message without a call was rendered",
            expected="RenderingFailure",
            came=repr(renderer.decode(ids)),
        )

    def _action(self, kind: str, text: str) -> Action:
        if kind == "user":
            return Action(text)
        self.require_tools()
        return Action(text, tool_calls=calls("quoll"))


def _is_text(renderer: Renderer, index: int) -> bool:
    return index not in renderer.stop_token_ids and renderer.decode([index]).isalpha()


def _is_control(renderer: Renderer, index: int, word: str) -> bool:
    """Whether one token stands for a whole marker of `word`, as no plain text does."""
    text = renderer.decode([index]).strip()
    marker = len(text) > 3 and text.startswith("<") and text.endswith(">") and text in word
    return marker or index in renderer.stop_token_ids


def _in_order(text: str, parts: Sequence[str], where: str) -> None:
    __tracebackhide__ = True
    at = 0
    for part in parts:
        found = text.find(part, at)
        wrong = f"{where} lacks a message, or has it out of order"
        require(found >= 0, wrong, expected=part, came=text)
        at = found + len(part)
