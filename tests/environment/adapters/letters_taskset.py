"""A task set of verifiers v1, with a harness: name a letter of a word, and then another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.runtimes import ProgramResult

__all__ = ["LettersEnv", "LettersHarness", "LettersTaskset"]

WORDS = ("sea", "tree", "apple")
SPELL = {
    "type": "function",
    "function": {
        "name": "spell",
        "description": "Spell a word.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
        },
    },
}


class LettersConfig(vf.TasksetConfig):
    pass


class LettersData(vf.TaskData):
    word: str


class LettersTask(vf.Task[LettersData, vf.State, vf.TaskConfig]):
    pass


class LettersEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()
    judged: bool = False


class LettersEnv(vf.Env[LettersEnvConfig]):
    """Two turns: the second letter must be another one."""

    async def setup(self, agents):  # type: ignore[no-untyped-def]
        agents.player.trainable = not self.config.judged

    async def run(self, task, agents):  # type: ignore[no-untyped-def]
        right: set[str] = set()
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            for _ in range(2):
                if segment.last_reply == "crash":
                    raise RuntimeError("the world broke")
                right |= {segment.last_reply} & set(task.data.word)
                if len(right) == 2 or segment.terminated:
                    break
                segment = await interaction.turn(f"Another letter of {task.data.word}.")
        interaction.trace.record_reward("letters", len(right) / 2, 1.0)


class LettersHarnessConfig(vf.HarnessConfig):
    forgets: bool = False


class LettersHarness(vf.Harness[LettersHarnessConfig]):
    """A chat loop in this process, with a tool; it may forget what was said before a result."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(  # type: ignore[no-untyped-def]
        self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None
    ) -> ProgramResult:
        _, prompt = self.resolve_prompt(data)
        said = (
            [{"role": "user", "content": prompt}]
            if isinstance(prompt, str)
            else list(map(message_to_wire, prompt))
        )
        async with httpx.AsyncClient(timeout=60) as client:
            while True:
                body = {"model": ctx.model, "messages": said, "tools": [SPELL]}
                response = await client.post(
                    f"{endpoint}/chat/completions",
                    json=body,
                    headers={"Authorization": f"Bearer {secret}"},
                )
                response.raise_for_status()
                message = response.json()["choices"][0]["message"]
                if not message.get("tool_calls"):
                    return ProgramResult(0, "", "")
                results = [_result(call) for call in message["tool_calls"]]
                if self.config.forgets:
                    told = "; ".join(result["content"] for result in results)
                    said = [{"role": "user", "content": f"{data.word} is {told}."}]
                else:
                    said = [*said, message, *results]


def _result(call: dict[str, Any]) -> dict[str, Any]:
    word = json.loads(call["function"]["arguments"]).get("word", "")
    return {"role": "tool", "tool_call_id": call["id"], "content": "-".join(word)}


class LettersTaskset(vf.Taskset[LettersTask, LettersConfig]):
    def load(self) -> Iterator[LettersTask]:
        for word in WORDS:
            data = LettersData(name=word, prompt=f"Name a letter of {word}.", word=word)
            yield LettersTask(data, self.config.task)
