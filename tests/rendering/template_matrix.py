"""Every chat template of the installed trl, in every situation: exact, refused or wrong.

`python tests/rendering/template_matrix.py docs/templates.md` writes the page.

The judge shares no code with the renderer: a reply's delta is exact when the template's own render
of the whole conversation (`apply_chat_template`) ends with it, in text and in tokens, when every
message of the reply stands in it, and when what is left before it ends with the turn that the model
wrote.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import real_tokenizers

from retrain.errors import RenderingFailure
from retrain.rendering import DeltaRenderer
from retrain.rendering.conversation import conversation
from retrain.rendering.self_check import TOOL_LIST
from retrain.rendering.shape import LOOKUP_TOOL
from retrain.types import Action, Message, ToolCall

DATE = datetime.date(2024, 7, 26)
WORDS = ("yes", "no", "42", "é🙂漢", "a\nb", '{"a": 1}', "tab\tend", "x  y", "it's", "ﬀ", "1e-5")
_STOPS = {
    "glm": ["<|user|>", "<|observation|>", "<|endoftext|>"],
    "phi3": ["<|end|>"],
    "phi4": ["<|im_end|>"],
    "gptoss": ["<|return|>", "<|call|>"],
}
_KNOWN_STOPS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|return|>",
    "<|call|>",
    "<turn|>",
    "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|END_OF_TURN_TOKEN|>",
    "<|end|>",
    "<|endoftext|>",
)


@dataclass(frozen=True, slots=True)
class Situation:
    """A kind of moment in an episode.

    Attributes:
        name: For the table.
        roles: The roles of the reply's messages.
        calls: Calls of the turn that is replied to.
        tools: Whether the prompt shows tools.
        system: Whether the prompt begins with a system message.
        reasoning: Whether the turn holds reasoning.
        earlier: Rounds before it: "user" or "tool".
        cut: Whether the turn was cut, so that the model wrote no stop token.
    """

    name: str
    roles: tuple[str, ...] = ("user",)
    calls: int = 0
    tools: bool = False
    system: bool = False
    reasoning: bool = False
    earlier: tuple[str, ...] = ()
    cut: bool = False


SITUATIONS = (
    Situation("user"),
    Situation("user after a system prompt", system=True),
    Situation("user after reasoning", reasoning=True),
    Situation("user after a cut turn", cut=True),
    Situation("tool result", ("tool",), 1, tools=True),
    Situation("two parallel results", ("tool", "tool"), 2, tools=True),
    Situation("tool result, then user", ("tool", "user"), 1, tools=True),
    Situation("tool result after reasoning", ("tool",), 1, tools=True, reasoning=True),
    Situation("second tool round", ("tool",), 1, tools=True, earlier=("tool",)),
    Situation("user after a tool round", tools=True, earlier=("tool",)),
    Situation("tool result after a user round", ("tool",), 1, tools=True, earlier=("user",)),
    Situation("system, then user", ("system", "user")),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one template fares in one situation.

    Attributes:
        exact: Conversations whose delta is exact.
        refused: The reason of the refusal; "" where there is none.
        wrong: The first difference; "" where there is none.
    """

    exact: int = 0
    refused: str = ""
    wrong: str = ""

    @property
    def word(self) -> str:
        return "wrong" if self.wrong else "refused" if self.refused else "exact"


@cache
def _vocabulary(folder: Path, llama: bool) -> Any:
    load = real_tokenizers.llama3_tokenizer if llama else real_tokenizers.qwen_tokenizer
    return load(folder)


def make_tokenizer(folder: Path, name: str) -> tuple[Any, list[int]]:
    """The template on the vocabulary that fits it, and its stop tokens.

    One tokenizer serves all the templates of a vocabulary: use it before the next one is made.
    """
    llama = name.startswith("llama")
    tokenizer = _vocabulary(folder, llama)
    text = real_tokenizers.chat_template(name)
    tokenizer.chat_template = text
    real_tokenizers.with_markers(tokenizer, ["<bos>", "</s>", *real_tokenizers.markers(text)])
    family = next((stops for start, stops in _STOPS.items() if name.startswith(start)), None)
    stops = family or [stop for stop in _KNOWN_STOPS if stop in text] or ["</s>"]
    ids = real_tokenizers.with_markers(tokenizer, stops)
    tokenizer.eos_token = stops[0]
    tokenizer.bos_token = "<|begin_of_text|>" if llama else "<bos>"
    return tokenizer, ids


def judge_template(
    folder: Path, name: str, *, conversations: int, seed: int = 0
) -> tuple[list[Verdict], str]:
    """One verdict per situation, and the tool format that is read; "" where none is.

    Rendering is judged apart from parsing: where no parser reads the template's calls, one that
    somebody names (`rendering.tool_format`) lets the prompt have tools.
    """
    tokenizer, stops = make_tokenizer(folder, name)
    renderer = DeltaRenderer(tokenizer, stop_token_ids=stops, date=DATE)
    unread = (renderer.check_report[TOOL_LIST] or "").startswith("no parser")
    tool_format = "" if unread else renderer.tool_format
    if unread:
        renderer = DeltaRenderer(tokenizer, stop_token_ids=stops, date=DATE, tool_format="hermes")
    judge = _Judge(tokenizer, renderer)
    verdicts = [
        judge.situation(situation, conversations, random.Random(f"{name} {situation.name} {seed}"))
        for situation in SITUATIONS
    ]
    return verdicts, tool_format


class _Judge:
    def __init__(self, tokenizer: Any, renderer: DeltaRenderer) -> None:
        self._tokenizer = tokenizer
        self._renderer = renderer

    def situation(self, situation: Situation, count: int, rng: random.Random) -> Verdict:
        verdict = Verdict()
        for _ in range(count):
            history, turn, reply = _episode(situation, rng)
            try:
                wrong = self._wrong(situation, history, turn, reply)
            except RenderingFailure as failure:
                verdict = replace(verdict, refused=verdict.refused or str(failure))
                continue
            verdict = replace(verdict, exact=verdict.exact + (not wrong), wrong=wrong)
            if wrong:
                break
        return verdict

    def _wrong(
        self,
        situation: Situation,
        history: Sequence[Message],
        turn: Message,
        reply: Sequence[Message],
    ) -> str:
        tools = [LOOKUP_TOOL] if situation.tools else []
        self._renderer.first(history[: 1 + situation.system], tools)
        action = Action(turn.content, turn.reasoning, turn.tool_calls)
        last = self._last(situation)
        delta = self._renderer.delta(action, reply, last, tools)
        text = self._renderer.decode(delta)
        real = self._tokenizer.apply_chat_template(
            conversation([*history, turn, *reply]),
            tools=tools or None,
            tokenize=False,
            add_generation_prompt=True,
        )
        ids = self._tokenizer.encode(real, add_special_tokens=False)
        before = real[: len(real) - len(text)]
        written = turn.tool_calls[-1].arguments["word"] if turn.tool_calls else turn.content
        if not real.endswith(text):
            return f"the render ends {real[-len(text) - 20 :]!r}, the delta is {text!r}"
        if ids[-len(delta) :] != delta:
            return f"other tokens of {text!r}"
        missing = [m.content for m in reply if not any(f in text for f in _forms(m.content))]
        if missing:
            return f"{missing[0]!r} is not in the delta {text!r}"
        left = before[before.rfind(written) + len(written) :] if written in before else before
        if any(form in left for m in reply for form in _forms(m.content)) or written not in before:
            return f"the delta {text!r} does not begin after the turn that ends {before[-60:]!r}"
        return ""

    def _last(self, situation: Situation) -> int:
        """The last sampled id: the turn's own terminator, or a word where it was cut."""
        if situation.cut:
            return int(self._tokenizer.encode("cut", add_special_tokens=False)[-1])
        terminators = self._renderer._deltas.terminators
        found = terminators.get(situation.calls > 0)
        return found.id if found else int(self._tokenizer.eos_token_id)


def _episode(
    situation: Situation, rng: random.Random
) -> tuple[list[Message], Message, list[Message]]:
    texts = _texts(rng)
    history = [Message("system", next(texts))] if situation.system else []
    history.append(Message("user", next(texts)))
    for kind in situation.earlier:
        if kind == "tool":
            history += [_turn(1, texts), Message("tool", next(texts))]
        else:
            history += [_turn(0, texts), Message("user", next(texts))]
    turn = _turn(situation.calls, texts)
    if situation.reasoning:
        turn = replace(turn, reasoning=next(texts))
    return history, turn, [Message(role, next(texts)) for role in situation.roles]


def _turn(calls: int, texts: Iterator[str]) -> Message:
    if not calls:
        return Message("assistant", next(texts))
    words = (next(texts).replace("\n", " ") for _ in range(calls))
    plain = ("".join(c for c in word if c.isalnum() and c.isascii()) for word in words)
    return Message("assistant", "", "", tuple(ToolCall("lookup", {"word": w}) for w in plain))


def _texts(rng: random.Random) -> Iterator[str]:
    """Distinct texts that begin and end with a word, so that a template's trimming is no matter."""
    number = 0
    while True:
        number += 1
        inner = " ".join(rng.choices(WORDS, k=rng.randint(0, 4)))
        yield f"w{rng.randrange(10**6)}n{number} {inner} e{rng.randrange(10**6)}"


def _forms(content: str) -> tuple[str, ...]:
    return tuple(
        form
        for escaped in (False, True)
        for form in (
            content,
            json.dumps(content, ensure_ascii=escaped)[1:-1],
            json.dumps(json.dumps(content, ensure_ascii=escaped)[1:-1], ensure_ascii=escaped)[1:-1],
        )
    )


def page(results: dict[str, list[Verdict]], formats: dict[str, str], conversations: int) -> str:
    """The documentation page."""
    counts = Counter(verdict.word for row in results.values() for verdict in row)
    head = " | ".join(str(number) for number in range(1, len(SITUATIONS) + 1))
    lines = [
        "# Chat templates",
        "",
        f"The {len(results)} chat templates that trl {version('trl')} ships, on real vocabularies "
        "(Llama 3's for its own, Qwen's with the",
        "control tokens added for the others), in "
        f"{len(SITUATIONS)} situations of {conversations} random conversations each: "
        f"**{counts['exact']} exact,",
        f"{counts['refused']} refused, {counts['wrong']} wrong.** Exact: the reply's tokens are "
        "the end of what the template itself renders for the",
        "whole conversation. Refused: the self-check finds the template at fault and says so, "
        "before anything is trained.",
        "",
        "This page is written by `python tests/rendering/template_matrix.py docs/templates.md`.",
        "",
        *(f"{number}. {s.name}" for number, s in enumerate(SITUATIONS, start=1)),
        "",
        f"| Template | Tool calls | {head} |",
        "| --- | --- |" + " --- |" * len(SITUATIONS),
    ]
    reasons: dict[str, list[str]] = {}
    for name, row in results.items():
        cells = []
        for number, verdict in enumerate(row, start=1):
            cells.append({"exact": "✓", "refused": "·", "wrong": "✗"}[verdict.word])
            if verdict.refused:
                reasons.setdefault(_reason(verdict.refused), []).append(f"{name} {number}")
        lines.append(f"| {name} | {formats[name] or '·'} | {' | '.join(cells)} |")
    lines += [
        "",
        "✓ exact, · refused, ✗ wrong. *Tool calls* is the parser (`rendering.tool_format: auto` "
        "finds it by",
        "reading a call that the template wrote); ·: the template shows no tools, or writes no "
        "calls.",
        "",
    ]
    lines += ["## Why they are refused", ""]
    for reason, where in sorted(reasons.items(), key=lambda item: -len(item[1])):
        names = sorted({place.rsplit(" ", 1)[0] for place in where})
        lines.append(f"- {reason} ({len(where)} cells: {', '.join(names)})")
    return "\n".join(lines) + "\n"


def _reason(text: str) -> str:
    """A refusal without what differs from template to template."""
    for start in ("in round", "the chat template refuses", "the chat template drops"):
        if text.startswith(start):
            return {
                "in round": "the template writes a reply differently, depending on what stands "
                "before it",
                "the chat template refuses": "the template refuses these messages",
                "the chat template drops": "the template drops or changes a message of the prompt",
            }[start]
    return text.split(":")[0].split("(")[0].strip()


def judge_all(folder: Path, conversations: int) -> tuple[dict[str, list[Verdict]], dict[str, str]]:
    """Verdicts and tool formats by template."""
    results: dict[str, list[Verdict]] = {}
    formats: dict[str, str] = {}
    for name in real_tokenizers.template_names():
        results[name], formats[name] = judge_template(folder, name, conversations=conversations)
    return results, formats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--conversations", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        results, formats = judge_all(Path(scratch), arguments.conversations)
    arguments.page.write_text(page(results, formats, arguments.conversations), encoding="utf-8")
    for name, row in results.items():
        for situation, verdict in zip(SITUATIONS, row, strict=True):
            if verdict.wrong:
                print(f"{name}, {situation.name}: {verdict.wrong}")


if __name__ == "__main__":
    main()
