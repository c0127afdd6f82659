"""Reward functions written for TRL, `(completions, **columns)`, brought unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from reward_episodes import make_episode

from retrain.config.rewards import RewardSetupConfig
from retrain.errors import ConfigError
from retrain.reward import RewardCalculator, build_reward_calculator
from retrain.types import FinishReason, Message, Segment, Task, Trajectory, Turn, Witness

CALLS: list[dict[str, Any]] = []


def spell(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def decode(ids: Sequence[int]) -> str:
    return "".join(map(chr, ids))


def episode(text: str, *, conversational: bool = True, **columns: Any) -> Trajectory:
    from dataclasses import replace

    made = make_episode(text)
    ids = spell(text)
    turn = Turn(ids, (0.0,) * len(ids), FinishReason.STOP, made.turns[0].action)
    prompt: Any = (Message("user", "Go."),) if conversational else "Go."
    task = Task("t", prompt, columns.pop("label", None), columns)
    return replace(made, task=task, segments=(Segment((1,), (turn,)),))


def calculator(*names: str, **configs: Any) -> RewardCalculator:
    entries = {**{name: {} for name in names}, **configs}
    home = {n if ":" in n else f"{__name__}:{n}": config for n, config in entries.items()}
    setup = RewardSetupConfig.model_validate({"rollout_reward_configs": home})
    return build_reward_calculator(setup, environment_rewards=False, decode=decode)


async def rewards(name: str, episodes: Sequence[Trajectory], **config: Any) -> list[float | None]:
    return [s.total for s in await calculator(**{name: config}).score(episodes)]


def recorded(prompts: Any, completions: Any, **kwargs: Any) -> list[float]:
    CALLS.append({"prompts": prompts, "completions": completions, **kwargs})
    return [1.0] * len(completions)


def matches(completions: Any, answer: list[str], strict: bool = True) -> list[float | None]:
    texts = [completion[0]["content"] for completion in completions]
    if not strict:
        texts = [text.strip() for text in texts]
    return [None if a is None else float(t == a) for t, a in zip(texts, answer, strict=True)]


async def later(completions: Any, **kwargs: Any) -> list[float]:
    await asyncio.sleep(0)
    return [float(len(c)) for c in completions]


def stateful(completions: Any, trainer_state: Any, **kwargs: Any) -> list[float]:
    return [trainer_state.global_step] * len(completions)


def logging(completions: Any, log_extra: Any, log_metric: Any, **kwargs: Any) -> list[float]:
    log_extra("text", completions)
    log_metric("count", len(completions))
    return [0.5] * len(completions)


def arrays(completion_ids: Any, **kwargs: Any) -> Any:
    import numpy

    return numpy.array([len(ids) for ids in completion_ids], dtype=numpy.float32)


def short(completions: Any, **kwargs: Any) -> list[float]:
    return [1.0]


async def test_a_function_is_called_once_for_all_with_trls_arguments() -> None:
    CALLS.clear()
    given = [episode("a", level=1), episode("<b>", level=2, label="x")]

    await calculator("recorded").score(given)

    (call,) = CALLS
    assert call.pop("log_extra") is not None
    assert call.pop("log_metric") is not None
    assert call == {
        "prompts": [[{"role": "user", "content": "Go."}]] * 2,
        "completions": [
            [{"role": "assistant", "content": "a"}],
            [{"role": "assistant", "content": "<b>"}],
        ],
        "completion_ids": [[*spell("a")], [*spell("<b>")]],
        "environments": [None, None],
        "level": [1, 2],
        "label": [None, "x"],
        "id": ["t", "t"],
    }


async def test_a_text_prompt_has_a_text_completion() -> None:
    CALLS.clear()

    await calculator("recorded").score([episode("abc", conversational=False)])

    assert (CALLS[0]["prompts"], CALLS[0]["completions"]) == (["Go."], ["abc"])


async def test_a_column_params_and_none() -> None:
    given = [episode(" a", answer="a"), episode("b", answer="b"), episode("c", answer=None)]

    assert await rewards("matches", given) == [0.0, 1.0, None]
    assert await rewards("matches", given, params={"strict": False}) == [1.0, 1.0, None]


async def test_none_leaves_the_other_components_alone() -> None:
    scores = await calculator("matches", "later").score([episode("a", answer=None)])

    assert (scores[0].total, dict(scores[0].components)) == (1.0, {"later": 1.0})


async def test_a_missing_column_stops_with_its_name() -> None:
    with pytest.raises(ConfigError, match="matches needs answer; the tasks have the columns id"):
        await calculator("matches").score([episode("a")])


@pytest.mark.parametrize(("name", "expected"), [("later", 1.0), ("logging", 0.5), ("arrays", 3.0)])
async def test_all_kinds_of_functions_work(name: str, expected: float) -> None:
    assert await rewards(name, [episode("abc")]) == [expected]


async def test_a_wrong_number_of_rewards_is_a_failure() -> None:
    scores = await calculator("short").score([episode("a"), episode("b")])

    assert [score.dropped for score in scores] == [True, True]
    assert "returned 1 values for 2 episodes" in str(scores[0].error)


def test_a_function_that_needs_trls_trainer_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"stateful: stateful needs trainer_state"):
        calculator("stateful")


def test_it_belongs_among_the_rollout_rewards() -> None:
    setup = RewardSetupConfig.model_validate({"step_reward_configs": {f"{__name__}:later": {}}})
    with pytest.raises(ConfigError, match="put it under rollout_reward_configs"):
        build_reward_calculator(setup, decode=decode)


def test_an_unknown_parameter_is_named() -> None:
    with pytest.raises(ConfigError, match=r"params\.stricter: .*did you mean 'strict'"):
        calculator(matches={"params": {"stricter": True}})


def test_a_run_without_any_reward_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing is rewarded; the environment has no get_reward"):
        build_reward_calculator(RewardSetupConfig(), environment_rewards=False)


async def test_tool_messages_and_environments_reach_the_function() -> None:
    from dataclasses import replace

    class World:
        tools = ({"type": "function", "function": {"name": "look", "parameters": {}}},)
        world = "the world"

    CALLS.clear()
    prompt, reply = (Message("user", "Go. Now."),), (Message("tool", "seen", name="look"),)
    first = make_episode("one", "two")
    played = replace(first, witness=Witness(World(), prompt, (reply,)))

    await calculator("recorded").score([played])

    assert CALLS[0]["environments"] == ["the world"]
    assert CALLS[0]["prompts"] == [[{"role": "user", "content": "Go. Now."}]]
    assert CALLS[0]["completions"] == [
        [
            {"role": "assistant", "content": "one"},
            {"role": "tool", "name": "look", "content": "seen"},
            {"role": "assistant", "content": "two"},
        ]
    ]


THOUGHTS = [
    "<think>\nI see.\n</think>\nFour.",
    "<think>\nI see.\nFour.",
    "Four.",
    "<think></think>",
]


async def test_trls_think_format_reward_gives_what_it_gives_alone() -> None:
    direct = pytest.importorskip("trl.rewards").think_format_reward(
        [[{"role": "assistant", "content": text}] for text in THOUGHTS]
    )

    ours = await rewards("trl.rewards:think_format_reward", [*map(episode, THOUGHTS)])

    assert ours == direct == [1.0, 0.0, 0.0, 1.0]


async def test_trls_soft_overlong_punishment_gives_what_it_gives_alone() -> None:
    texts = ["a" * n for n in (1, 5, 6, 8, 10, 11)]
    settings = {"max_completion_len": 10, "soft_punish_cache": 5}
    make = pytest.importorskip("trl.rewards").get_soft_overlong_punishment
    direct = make(**settings)(completion_ids=[[*spell(text)] for text in texts])

    name = "trl.rewards:get_soft_overlong_punishment"
    ours = await rewards(name, [*map(episode, texts)], params=settings)

    assert ours == direct == [0.0, 0.0, -0.2, -0.6, -1.0, -1.0]


def test_a_makers_parameters_are_checked() -> None:
    pytest.importorskip("trl.rewards")
    name = "trl.rewards:get_soft_overlong_punishment"
    with pytest.raises(ConfigError, match=r"params\.soft_punish_cache: missing"):
        calculator(**{name: {"params": {"max_completion_len": 10}}})


async def test_trls_accuracy_reward_gives_what_it_gives_alone() -> None:
    pytest.importorskip("math_verify")
    reward = pytest.importorskip("trl.rewards").accuracy_reward
    texts, solutions = [r"\boxed{\frac{1}{3}}", r"\boxed{4}"], [r"$\frac{1}{3}$", "$5$"]
    direct = reward([[{"content": text}] for text in texts], solutions)

    given = [episode(t, solution=s) for t, s in zip(texts, solutions, strict=True)]

    assert await rewards("trl.rewards:accuracy_reward", given) == direct == [1.0, 0.0]
