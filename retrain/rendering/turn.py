"""`TurnText`: an assistant message as the ids that the model would have sampled to write it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.delta import DeltaText
from retrain.rendering.parsing.reasoning import OPEN
from retrain.rendering.template import ChatTemplate
from retrain.rendering.terminator import Vocabulary
from retrain.types import Message


class TurnText:
    """Writes assistant turns, for demonstrations."""

    def __init__(self, template: ChatTemplate, deltas: DeltaText, vocabulary: Vocabulary) -> None:
        self._template = template
        self._deltas = deltas
        self._stops = dict(vocabulary.stops)
        self._stops |= {found.text: found.id for found in deltas.terminators.values()}

    def thinking_prefix(self) -> str:
        """What the generation prompt itself writes of the turn: from `<think>` on, or nothing."""
        question = (Message("user", "Hello."),)
        try:
            closed = self._template.render(question, generation_prompt=False)
            opened = self._template.render(question, generation_prompt=True)
        except RenderingFailure:
            return ""
        prompt = opened.removeprefix(closed)
        return prompt[prompt.index(OPEN) :] if OPEN in prompt else ""

    def ids(
        self, history: Sequence[Message], message: Message, tools: Sequence[ToolSchema] = ()
    ) -> list[int]:
        """The ids of `message`, from behind the generation prompt to its stop token.

        Raises:
            RenderingFailure: The template does not write it behind that prompt, or does not end it.
        """
        if message.role != "assistant":
            raise RenderingFailure(f"a turn is an assistant message, not one of {message.role!r}")
        prompt = self._template.render(history, tools, generation_prompt=True)
        whole = self._template.render((*history, message), tools, generation_prompt=False)
        if not whole.startswith(prompt):
            raise RenderingFailure(
                "the chat template does not write this assistant message behind the prompt that "
                f"it makes of the history: the prompt ends with {prompt[-60:]!r}, and the message "
                f"is rendered as {whole[-120:]!r}"
            )
        text, stop = self._ended(whole[len(prompt) :], bool(message.tool_calls))
        ids = self._behind(prompt, text)
        if not ids or ids[-1] != self._stops[stop]:
            raise RenderingFailure(f"the tokenizer does not encode {stop!r} as a token")
        return ids

    def _ended(self, written: str, calls: bool) -> tuple[str, str]:
        """Cut the turn behind its last stop token; a role marker is put where it has none."""
        longest_first = sorted(self._stops, key=len, reverse=True)
        matches = list(re.finditer("|".join(map(re.escape, longest_first)), written))
        if matches:
            return written[: matches[-1].end()], matches[-1].group()
        terminator = self._deltas.terminators.get(calls)
        if terminator is None or not terminator.opens:
            raise RenderingFailure("the chat template ends this turn without a stop token")
        return written + terminator.text, terminator.text

    def _behind(self, prompt: str, text: str) -> list[int]:
        """Encode `text` as it continues `prompt`; on its own where the two would merge."""
        guard = self._deltas.guard
        before, together = guard.encode(prompt, {}), guard.encode(prompt + text, {})
        if together[: len(before)] == before:
            return together[len(before) :]
        return guard.encode(text, {})
