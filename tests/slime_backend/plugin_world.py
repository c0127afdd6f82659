"""A world and an engine whose episodes follow from their seeds alone; some fail on purpose."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrain.engine.base import SamplingParams
from retrain.engine.factory import EngineContext, make_engine
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.base import Environment
from retrain.types import Action, Message, Observation, StepResult, Task

WORDS = ("yes", "no", "42", "maybe", "a longer answer", "x")


class World(Environment):
    """Replies twice, then ends; the reward is the length of the last answer.

    A task whose metadata says `broken` fails: "reset" at once, "step" after the first turn.
    """

    async def reset(self, task: Task, seed: int) -> Observation:
        self._broken = task.metadata.get("broken")
        self._turn = 0
        if self._broken == "reset":
            raise OSError("the world is broken")
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self._turn += 1
        if self._broken == "step":
            raise OSError("the world broke")
        if self._turn == 3:
            success = {"success": len(action.text) > 3}
            return StepResult(Observation(), len(action.text) / 10, terminated=True, info=success)
        return StepResult(Observation((Message("user", f"go on {self._turn}"),)), 0.1)


def scripted(context: EngineContext) -> ScriptedEngine:
    """Writes words by the turn's seed."""
    assert context.encode is not None
    encode = context.encode

    def write(
        input_ids: Sequence[int], params: SamplingParams, session_id: str, seed: int
    ) -> list[int]:
        text = " ".join(random.Random(seed).choices(WORDS, k=2))
        return [*encode(text), min(params.stop_token_ids)]

    return ScriptedEngine(write)


class Recorder:
    """The in-process engine, with every answer written down by its turn's seed."""

    def __init__(self, inner: Any, path: Path) -> None:
        self._inner = inner
        self._path = path
        self._answers: dict[str, Any] = {}
        self.capabilities = inner.capabilities
        self.abort, self.release, self.close = inner.abort, inner.release, inner.close

    async def generate(self, input_ids: Sequence[int], params: SamplingParams, **turn: Any) -> Any:
        generation = await self._inner.generate(input_ids, params, **turn)
        answer = [list(input_ids), list(generation.output_ids), list(generation.logprobs)]
        self._answers[str(turn["seed"])] = answer
        self._path.write_text(json.dumps(self._answers))
        return generation


def recording(context: EngineContext, *, path: str) -> Recorder:
    """Records what the model itself writes."""
    return Recorder(make_engine("transformers", context), Path(path))


def replaying(context: EngineContext, *, path: str) -> ScriptedEngine:
    """Gives the recorded answers, and only to the very same streams."""
    answers = json.loads(Path(path).read_text())

    def write(
        input_ids: Sequence[int], params: SamplingParams, session_id: str, seed: int
    ) -> tuple[list[int], list[float]]:
        asked, ids, logprobs = answers[str(seed)]
        assert asked == list(input_ids), "another stream than the recorded one"
        return ids, logprobs

    return ScriptedEngine(write)
