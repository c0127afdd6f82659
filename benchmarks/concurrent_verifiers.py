"""Episodes in verifiers' `MultiTurnEnv`; run by `concurrency.py` with the Python that has it.

The loop, the conversion of messages and the reading of tokens are verifiers' own. Without a server
the network alone is replaced, by an object in place of the OpenAI client's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import verifiers as vf
from concurrent_side import CONNECT_SECONDS, PROMPT, Play, Work, completion, measure, prompt_tokens
from datasets import Dataset
from openai.types.chat import ChatCompletion
from verifiers.clients import OpenAIChatCompletionsClient
from verifiers.types import ClientConfig


class Dialog(vf.MultiTurnEnv):
    """Says the same after each turn but the last."""

    work: Work

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        """The reply."""
        return [vf.UserMessage(content=await self.work.reply())]


class Completions:
    """Answers at once what an OpenAI-compatible server answers that gives token ids."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def create(self, *, messages: Sequence[Any], **_: Any) -> ChatCompletion:
        """The next answer."""
        prompt = prompt_tokens(len(messages), self._work.tokens)
        return await self._work.answer(self._completion, prompt)

    def _completion(self, prompt: int) -> ChatCompletion:
        return ChatCompletion.model_validate(completion(prompt, self._work.tokens))


@asynccontextmanager
async def players(work: Work) -> AsyncIterator[Play]:
    """One environment and one client for all episodes, as verifiers has them."""
    environment = Dialog(max_turns=work.turns, dataset=Dataset.from_list([{"question": PROMPT}]))
    environment.work = work
    network: Any = SimpleNamespace(chat=SimpleNamespace(completions=Completions(work)))
    client = OpenAIChatCompletionsClient(
        ClientConfig(
            api_base_url=f"{work.url}/v1",
            api_key_var="OPENAI_API_KEY",
            connect_timeout=CONNECT_SECONDS,
        )
        if work.url
        else network
    )

    async def play(number: int) -> Any:
        row: Any = {"prompt": [{"role": "user", "content": PROMPT}], "example_id": number}
        return await environment.rollout(row, client, "m", {})

    try:
        yield play
    finally:
        if work.url:
            await client.close()


def turns(states: Sequence[Any]) -> int:
    """Turns of finished episodes, each with its tokens."""
    for state in states:
        assert state["error"] is None and state["trajectory"][-1]["tokens"] is not None
    return sum(len(state["trajectory"]) for state in states)


if __name__ == "__main__":
    measure(players, turns)
