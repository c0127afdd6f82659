"""One side of `concurrency.py`: what it is told, what it measures, what it prints.

Nothing but the standard library is imported, so that the peer's side runs where the peer is.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROMPT = "Add the numbers that I tell you."
REPLY = "Noted. The next number is 42; go on with the sum, and say what it is so far."
ANSWER = "So far the sum of the numbers is 128, and the one after that makes it a little more. "
PROMPT_TOKENS = 37
"""Of the first prompt as Qwen2.5's template renders it: what a server tells that gives its ids."""
REPLY_TOKENS = 34
"""Of a reply and what stands around it, likewise."""
_OTHER_FILES = 64
CONNECT_SECONDS = 3600.0
"""How long a connection may take: all episodes ask for theirs in the same moment."""


def allow_connections(count: int = 0) -> None:
    """Let this process hold a connection for each episode; the usual bound is 1,024 files.

    Args:
        count: How many it needs.

    Raises:
        SystemExit: The system allows fewer.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count + _OTHER_FILES:
        raise SystemExit(f"{count} connections, but ulimit -Hn is {most}; lower --episodes")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def prompt_tokens(messages: int, tokens: int) -> int:
    """Tokens of a prompt of so many messages whose answers have `tokens`."""
    return PROMPT_TOKENS + messages // 2 * (tokens + REPLY_TOKENS)


def completion(prompt: int, tokens: int) -> dict[str, Any]:
    """What an OpenAI-compatible server answers that gives token ids, such as vLLM.

    Args:
        prompt: Tokens of the prompt.
        tokens: Of the answer.
    """
    rows = [{"token": "a", "logprob": -0.5 - n / 1e3, "top_logprobs": []} for n in range(tokens)]
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": ANSWER * (tokens // 16 + 1)},
        "logprobs": {"content": rows},
        "token_ids": list(range(1000, 1000 + tokens)),
    }
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    return {
        "id": "x",
        "created": 0,
        "model": "m",
        "object": "chat.completion",
        "choices": [choice],
        "usage": usage,
        "prompt_token_ids": list(range(1000, 1000 + prompt)),
    }


@dataclass(slots=True)
class Meter:
    """CPU time of the engine's and the environment's own code, which is no overhead.

    Attributes:
        spent: Nanoseconds.
    """

    spent: int = 0

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Leave out what is done within."""
        began = time.process_time_ns()
        try:
            yield
        finally:
            self.spent += time.process_time_ns() - began


@dataclass(frozen=True, slots=True)
class Work:
    """What a side plays.

    Attributes:
        episodes: All at the same time.
        turns: Answers of an episode.
        tokens: Of an answer.
        engine: Seconds of an answer.
        environment: Seconds of a reply.
        url: Of a server that answers; "" for answers that are made in this process.
        meter: What is left out.
    """

    episodes: int
    turns: int
    tokens: int
    engine: float
    environment: float
    url: str
    meter: Meter = field(default_factory=Meter)

    async def answer(self, make: Callable[[int], Any], prompt: int) -> Any:
        """An engine's answer: what `make` builds from the length of the prompt."""
        await asyncio.sleep(self.engine)
        with self.meter.outside():
            return make(prompt)

    async def reply(self) -> str:
        """The environment's."""
        await asyncio.sleep(self.environment)
        return REPLY


Play = Callable[[int], Awaitable[Any]]
"""Plays the episode of that number and gives all there is of it."""

Players = Callable[[Work], AbstractAsyncContextManager[Play]]
"""Opens what a side needs, and closes it."""


async def _all(players: Players, work: Work) -> Sequence[Any]:
    async with players(work) as play:
        return await asyncio.gather(*map(play, range(work.episodes)))


def measure(players: Players, count: Callable[[Sequence[Any]], int]) -> None:
    """Play what the command line says and print what it took, as JSON.

    Args:
        players: Plays the episodes.
        count: Counts the turns of finished episodes.
    """
    parser = argparse.ArgumentParser()
    for name, kind in (("episodes", int), ("turns", int), ("tokens", int), ("url", str)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    for name in ("engine", "environment"):
        parser.add_argument(f"--{name}", type=float, required=True)
    given = vars(parser.parse_args())
    allow_connections(given["episodes"] if given["url"] else 0)
    asyncio.run(_all(players, Work(**{**given, "episodes": 2})))
    work = Work(**given)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # what loading took at most no longer counts
    before = _most_resident()
    began = time.process_time_ns()
    done = asyncio.run(_all(players, work))
    spent = time.process_time_ns() - began - work.meter.spent
    turns = count(done)
    assert turns == work.episodes * work.turns, "a turn is missing"
    grown = _most_resident() - before
    print(json.dumps({"us_per_turn": spent / turns / 1e3, "peak_bytes": grown}))


def _most_resident() -> int:
    """The most bytes of memory that this process has held since that was last cleared (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kilobytes) * 1024
