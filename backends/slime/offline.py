"""The built-in offline run: every function of the plugin without a model, a server or a file.

slime's contract tests call the functions with `args=None` or a handful of attributes. There is no
configuration then, so a minimal one stands in: texts are their UTF-8 bytes, the model's turns are
scripted, and an episode is one turn. Everything between, from the bridges to the samples, is what
runs in production.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridges import DataFormatBridge, EnvironmentBridge, RewardBridge
from retrain.compose import Composition, episode_limits
from retrain.compose.rewarding import make_calculator
from retrain.config import RunConfig
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import make_environment_factory
from retrain.environment.base import Environment, ToolSchema
from retrain.rendering.base import HistoryMode
from retrain.rollout.executors.base import LocalExecutor
from retrain.types import Action, Message, Observation, StepResult, Task

_STOP = 256
_PAD = 257
_TEXT = b"an offline answer"


class SingleTurn(Environment):
    """Ends after the first turn; the reward is the share of the answer's bytes that are letters."""

    async def reset(self, task: Task, seed: int) -> Observation:
        """Give the task's prompt."""
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """End the episode."""
        letters = sum(character.isalpha() for character in action.text)
        return StepResult(Observation(), letters / max(len(action.text), 1), terminated=True)


class ByteRenderer:
    """Texts as UTF-8 bytes: a `Renderer` that needs no tokenizer."""

    history: HistoryMode = "keep"
    stop_token_ids = frozenset({_STOP})
    pad_token_id = _PAD

    def first(self, messages: Sequence[Message], tools: Sequence[ToolSchema] = ()) -> list[int]:
        """The bytes of all messages."""
        return [i for message in messages for i in message.content.encode()] or [_PAD]

    def delta(
        self,
        action: Action,
        messages: Sequence[Message],
        last_id: int,
        tools: Sequence[ToolSchema] = (),
    ) -> list[int]:
        """The bytes of the reply."""
        return self.first(messages, tools)

    def whole(
        self,
        messages: Sequence[Message],
        trusted: Sequence[Message] = (),
        tools: Sequence[ToolSchema] = (),
    ) -> list[int]:
        """The bytes of all messages."""
        return self.first(messages, tools)

    def continuation(self, stream: Sequence[int], whole: Sequence[int]) -> list[int] | None:
        """The bytes that follow the stream."""
        own = list(stream)
        return list(whole[len(own) :]) if list(whole[: len(own)]) == own else None

    def message(self, action: Action, output_ids: Sequence[int]) -> Message:
        """The turn as a message."""
        return action.message

    def parse(self, output_ids: Sequence[int]) -> Action:
        """The text of a turn."""
        return Action(text=self.text(output_ids))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`."""
        return self.text(ids)

    @property
    def decodes_bytes(self) -> bool:
        """No: ids that are no bytes are left out."""
        return False

    def text(self, ids: Sequence[int]) -> str:
        """The text of those ids that are bytes."""
        return bytes(i for i in ids if i < _STOP).decode(errors="replace")


def offline_config() -> RunConfig:
    """Two tasks, two episodes each, and a held-out task."""
    return RunConfig.model_validate(
        {
            "experiment_name": "offline",
            "model": {"name_or_path": "none"},
            "environment": {"type": f"{__name__}:SingleTurn"},
            "prompt_source": {"type": "list", "source_config": {"items": ["first", "second"]}},
            "evaluation": {
                "prompt_source": {"type": "list", "source_config": {"items": ["held out"]}}
            },
            "algorithm": {
                "name": "grpo",
                "backend": "slime",
                "hyperparameters": {
                    "num_iterations": 1,
                    "rollout_batch_size": 2,
                    "n_samples_per_prompt": 2,
                    "max_response_len": 64,
                },
            },
        }
    )


def offline_composition(config: RunConfig) -> Composition:
    """The bridges over bytes."""
    renderer = ByteRenderer()
    factory = make_environment_factory(config.environment.type, {})
    calculator = make_calculator(
        config, renderer, renderer.text, environment_rewards=factory.rewards
    )
    return Composition(
        config=config,
        renderer=renderer,  # type: ignore[arg-type]
        environment=EnvironmentBridge(renderer, factory, episode_limits(config)),
        rewards=RewardBridge(calculator, config.algorithm.name),
        data_format=DataFormatBridge(renderer),
        executor=LocalExecutor(factory),
    )


def offline_engine() -> ScriptedEngine:
    """Writes the same turn always, cut at another place by each seed."""

    def write(input_ids: object, params: object, session_id: str, seed: int) -> list[int]:
        return [*_TEXT[: 1 + seed % len(_TEXT)], _STOP]

    return ScriptedEngine(write)
