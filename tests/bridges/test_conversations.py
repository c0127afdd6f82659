"""What conversations may hold: who speaks, when a turn ends, and when there is no room left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from echo_environment import PARAMS, SEED, Echo

from bridges import DataFormatBridge, EnvironmentBridge, EpisodeLimits
from bridges.stopping import cut_behind
from retrain.compose import make_tasks
from retrain.compose.bounds import episode_limits
from retrain.config import RunConfig
from retrain.engine.base import Generation
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.base import Environment
from retrain.errors import Boundary
from retrain.rendering import load_renderer
from retrain.rollout.sources import RowKeys, list_tasks
from retrain.rollout.system_prompt import with_system_prompt
from retrain.sample import Status
from retrain.types import (
    Action,
    FinishReason,
    Message,
    Observation,
    StepResult,
    StopReason,
    Task,
    ToolCall,
)

TASK = Task("t", "What is 2 + 2?")
STOP = "<|im_end|>"
CALL = f'<tool_call>\n{{"name": "look", "arguments": {{}}}}\n</tool_call>{STOP}'
LOOK = {"type": "function", "function": {"name": "look", "description": "", "parameters": {}}}


class Speaks(Environment):
    """Says what it is given, turn by turn, in whatever role, and earns 1 in the end."""

    def __init__(self, *replies: Sequence[Message]) -> None:
        self.replies = list(replies)
        self.actions: list[Action] = []

    @property
    def tools(self) -> Any:
        return [LOOK]

    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self.actions.append(action)
        if len(self.actions) > len(self.replies):
            return StepResult(Observation(), terminated=True)
        return StepResult(Observation(tuple(self.replies[len(self.actions) - 1])))

    async def final_reward(self) -> float:
        return 1.0


async def play(bridge: EnvironmentBridge, engine: Any, task: Task = TASK) -> Any:
    return await bridge.run(task, engine=engine, params=PARAMS, seed=SEED)


async def test_an_environment_speaks_as_tool_user_and_system_in_one_episode(
    bridge: Callable[..., Any], encode: Any, tokenizer: Any
) -> None:
    replies = [
        (Message("tool", "a door"), Message("user", "Hurry.")),
        (Message("system", "From now on, whisper."), Message("user", "Well?")),
        (Message("user", "One."), Message("user", "Two.")),
    ]
    engine = ScriptedEngine([CALL, f"I see.{STOP}", f"Yes.{STOP}", f"End.{STOP}"], encode=encode)
    trajectory = await play(bridge(Speaks(*replies)), engine)

    assert trajectory.stop_reason is StopReason.TERMINATED
    called = Message("assistant", tool_calls=(ToolCall("look", {}),))
    said = [
        {"role": "user", "content": TASK.prompt},
        {"role": "assistant", "content": "", "tool_calls": [{"function": _function(called)}]},
        {"role": "tool", "content": "a door"},
        {"role": "user", "content": "Hurry."},
        {"role": "assistant", "content": "I see."},
        {"role": "system", "content": "From now on, whisper."},
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "One."},
        {"role": "user", "content": "Two."},
        {"role": "assistant", "content": "End."},
    ]
    whole = tokenizer.apply_chat_template(said, tools=[LOOK], tokenize=False)
    assert tokenizer.decode(trajectory.segments[0].ids) + "\n" == whole
    (sample,) = DataFormatBridge(load_renderer(tokenizer)).to_samples(
        replace(trajectory, reward=1.0, group_index=0, index=0), advantage=0.0
    )
    trained = [t for t, mask in zip(sample.response_ids, sample.loss_mask, strict=True) if mask]
    assert tokenizer.decode(trained) == CALL + "".join(
        f"{text}{STOP}" for text in ("I see.", "Yes.", "End.")
    )


def _function(message: Message) -> dict[str, Any]:
    return {"name": message.tool_calls[0].name, "arguments": {}}


async def test_a_role_that_the_template_refuses_fails_the_episode_at_that_turn(
    tokenizer: Any, encode: Any
) -> None:
    template = tokenizer.chat_template
    refuse = (
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('The system message must come first.') }}{% endif %}{% endfor %}"
    )
    tokenizer.chat_template = refuse + template
    try:
        renderer = load_renderer(tokenizer)
        replies = [(Message("user", "Go on."),), (Message("system", "Whisper."),)]
        environment = Speaks(*replies)
        bridge = EnvironmentBridge(renderer, lambda: environment, EpisodeLimits(1000))
        engine = ScriptedEngine([f"One.{STOP}", f"Two.{STOP}"], encode=encode)
        trajectory = await play(bridge, engine)
    finally:
        tokenizer.chat_template = template

    assert trajectory.status is Status.FAILED
    assert trajectory.error.boundary is Boundary.RENDERING
    assert "must come first" in trajectory.error.reason
    assert "system" in trajectory.error.reason
    assert len(trajectory.turns) == 2


async def test_reasoning_is_kept_apart_from_the_text_and_stays_in_the_stream(
    tokenizer: Any, encode: Any
) -> None:
    environment = Echo(["Sure?"])
    bridge = EnvironmentBridge(load_renderer(tokenizer), lambda: environment, EpisodeLimits(1000))
    turn = f"<think>\nTwo and two.\n</think>\n\nIt is 4.{STOP}"
    trajectory = await play(bridge, ScriptedEngine([turn, f"Yes.{STOP}"], encode=encode))

    assert environment.actions[0] == Action("It is 4.", "Two and two.")
    assert "Two and two." in tokenizer.decode(trajectory.segments[0].ids)


@pytest.mark.parametrize("roomy", [True, False])
async def test_an_observation_that_does_not_fit_is_a_context_overflow(
    bridge: Callable[..., Any], encode: Any, renderer: Any, roomy: bool
) -> None:
    reply, turn = Message("user", "word " * 20), f"One.{STOP}"
    prompt = len(renderer.first(TASK.messages, [LOOK]))
    added = len(renderer.delta(Action("One."), [reply], encode(turn)[-1], [LOOK]))
    room = prompt + len(encode(turn)) + added + (1 if roomy else 0)
    engine = ScriptedEngine([turn, f"Two.{STOP}"], encode=encode)
    trajectory = await play(bridge(Speaks((reply,)), max_context_len=room), engine)

    assert (trajectory.status, trajectory.stop_reason) == (
        Status.TRUNCATED,
        StopReason.CONTEXT_OVERFLOW,
    )
    assert len(trajectory.segments[0].ids) == (room if roomy else room - added)
    assert [turn.reward for turn in trajectory.turns][-1] == 1.0
    (sample,) = DataFormatBridge(renderer).to_samples(
        replace(trajectory, reward=1.0, group_index=0, index=0), advantage=0.5
    )
    assert str(sample.status) == "truncated"
    written = len(encode(turn))
    assert sample.loss_mask == ([1] * written + [0] * added + [1] if roomy else [1] * written)


async def test_a_prompt_that_fills_the_context_is_never_sent_to_the_engine(
    bridge: Callable[..., Any], renderer: Any
) -> None:
    engine = ScriptedEngine([])
    limit = len(renderer.first(TASK.messages, [LOOK]))
    trajectory = await play(bridge(Speaks(), max_context_len=limit), engine)
    assert trajectory.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert engine.calls == [] and not trajectory.valid


async def test_a_stop_string_ends_the_turn_and_nothing_behind_it_is_seen_or_trained(
    bridge: Callable[..., Any], encode: Any, tokenizer: Any
) -> None:
    searched = encode("<search>cats</search> and then nonsense")
    engine = ScriptedEngine([[*searched, *encode(STOP)], encode(f"A cat.{STOP}")])
    environment = Echo(["found: cat"])
    trajectory = await play(bridge(environment, stop_strings=("</search>",)), engine)

    first = trajectory.turns[0]
    assert environment.actions[0] == Action("<search>cats</search>")
    assert first.finish_reason is FinishReason.STOP
    assert first.output_ids == tuple(searched[: len(first.output_ids)])
    assert len(first.output_logprobs) == len(first.output_ids)
    assert tokenizer.decode(first.output_ids) == "<search>cats</search>"
    assert tokenizer.decode(first.env_ids).startswith(f"{STOP}\n<|im_start|>user\nfound")
    assert list(engine.calls[1].input_ids)[-len(first.env_ids) :] == list(first.env_ids)
    assert "nonsense" not in tokenizer.decode(trajectory.segments[0].ids)


def test_the_token_that_completes_a_stop_string_stays_whole() -> None:
    words = ["a", "b </", "s> c", " d"]

    def decode(ids: Sequence[int]) -> str:
        return "".join(words[i] for i in ids)

    spans = {"cached_tokens": 0, "weight_spans": ((1, "3"), (3, "4"))}
    whole = Generation((0, 1, 2, 3), (-1.0, -2.0, -3.0, -4.0), FinishReason.LENGTH, meta=spans)
    cut = cut_behind(whole, ["x", "</s>"], decode)
    assert (cut.output_ids, cut.logprobs) == ((0, 1, 2), (-1.0, -2.0, -3.0))
    assert cut.finish_reason is FinishReason.STOP
    assert cut.meta["weight_spans"] == ((1, "3"), (2, "4"))
    for same in (["e"], []):
        assert cut_behind(whole, same, decode) is whole
    aborted = replace(whole, finish_reason=FinishReason.ABORT)
    assert cut_behind(aborted, ["</s>"], decode) is aborted


def test_a_system_prompt_stands_before_every_task_that_has_none() -> None:
    rows = [
        "plain",
        {"prompt": [{"role": "system", "content": "Mine."}, {"role": "user", "content": "a"}]},
        {"messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]},
    ]
    tasks = (*list_tasks(rows, RowKeys(), "items"), Task("empty", ""))
    said = with_system_prompt(tasks, "Be brief.")
    assert [[(m.role, m.content) for m in task.messages] for task in said] == [
        [("system", "Be brief."), ("user", "plain")],
        [("system", "Mine."), ("user", "a")],
        [("system", "Be brief."), ("user", "b")],
        [("system", "Be brief.")],
    ]
    assert said[2].metadata["messages"][0] == {"role": "system", "content": "Be brief."}
    assert with_system_prompt(tasks, None) == tasks


def test_the_configuration_sets_system_prompts_and_stop_strings() -> None:
    source = {"type": "list", "source_config": {"items": ["a"]}}
    config = RunConfig.model_validate(
        {
            "experiment_name": "talk",
            "model": {"name_or_path": "none"},
            "environment": {"type": "calculator"},
            "prompt_source": source | {"system_prompt": "Be brief."},
            "evaluation": {"prompt_source": source},
            "rollout": {"stop_strings": ["</search>"]},
            "algorithm": {
                "name": "grpo",
                "backend": "trl",
                "hyperparameters": {"num_iterations": 1},
            },
        }
    )
    assert episode_limits(config).stop_strings == ("</search>",)
    assert config.evaluation is not None
    for tasks in (make_tasks(config), make_tasks(config, config.evaluation.prompt_source)):
        assert [message.content for message in tasks[0].messages] == ["Be brief.", "a"]
