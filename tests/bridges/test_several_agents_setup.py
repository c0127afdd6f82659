"""What a configuration says of several agents, and what is refused before anything is played."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from nim_match import FIRST, SECOND, Nim

from retrain.compose import compose_with
from retrain.config import RunConfig
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.registry import make_environment_factory
from retrain.environment.several_agents import MultiAgentEnvironment
from retrain.errors import ConfigError
from retrain.rendering import DeltaRenderer
from retrain.rollout import generate_rollout_batch
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.testing.checking import Outcome, Subject, check_environment
from retrain.types import Action, StopReason, Task


def config(samples: int = 4, **sections: Any) -> RunConfig:
    environment = {"type": "nim_match:Nim", **sections.pop("environment", {})}
    algorithm = {
        "name": "grpo",
        **sections.pop("algorithm", {}),
        "hyperparameters": {
            "num_iterations": 1,
            "n_samples_per_prompt": samples,
            "rollout_batch_size": 1,
            "max_response_len": 500,
        },
    }
    rows = {
        "experiment_name": "agents",
        "output_dir": "runs/agents",
        "model": {"name_or_path": "unused"},
        "environment": environment,
        "prompt_source": {"type": "list", "source_config": {"items": ["Play."]}},
        "algorithm": algorithm,
        **sections,
    }
    return RunConfig.model_validate(rows)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"samples": 3}, "n_samples_per_prompt: 3 is no multiple of the 2 agents"),
        ({"samples": 2}, "is one match of 2 agents.* use 4 or more, or algorithm.baseline: group"),
        (
            {
                "evaluation": {
                    "prompt_source": {"type": "list", "source_config": {"items": ["Play."]}}
                }
            },
            "evaluation.n_samples_per_prompt: 1 is no multiple of the 2 agents",
        ),
        (
            {
                "samples": 2,
                "algorithm": {"baseline": "group"},
                "environment": {"agents": {SECOND: "policy"}},
            },
            "one agent that is trained, .* use 4 or more",
        ),
        (
            {"environment": {"type": "nim_match:Broken"}},
            "cannot be asked for its agents: .*ValueError: no table",
        ),
        ({"rollout": {"executor": "process"}}, "rollout.executor: process: .* set local"),
        (
            {"rollout": {"owner": "slime"}, "algorithm": {"backend": "slime"}},
            "rollout.owner: slime: .* set retrain",
        ),
        ({"environment": {"agents": {"third": "policy"}}}, "environment.agents.third: no such"),
    ],
)
def test_what_cannot_be_played_together_is_refused(
    renderer: DeltaRenderer, given: Any, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        compose_with(config(**given), renderer)


@pytest.mark.parametrize(
    "given",
    [
        {"samples": 2, "algorithm": {"baseline": "group"}},
        {"samples": 3, "environment": {"agents": {SECOND: "nim_match:takes_one"}}},
    ],
)
def test_what_can_be_played_is_not(renderer: DeltaRenderer, given: Any) -> None:
    compose_with(config(**given), renderer)


@pytest.mark.parametrize(("baseline", "parted"), [("agent", True), ("group", False)])
async def test_the_baseline_is_the_agent_s_or_the_group_s(
    renderer: DeltaRenderer, encode: Any, baseline: str, parted: bool
) -> None:
    """One stone: the first agent always wins, the second never acts; both where two are left."""
    environment = {"env_specific_config": {"stones": 2}}
    given = config(environment=environment, algorithm={"baseline": baseline})
    engine = ScriptedEngine(["take 1<|im_end|>"], encode=encode)
    rollouts = compose_with(given, renderer).rollouts(engine)
    (group,) = await rollouts.collect([GroupRequest(0, Task("t", "Play."), 0)])
    assert [round(t.reward or 0.0) for t in group.trajectories] == [-1, 1, -1, 1]
    assert any(group.advantages) is not parted


class Plain:
    """No base class, no asynchronous method: whoever says the higher number wins."""

    agents = (FIRST, SECOND)

    def reset(self, task: Task, seed: int) -> None:
        self._task, self._said = task, dict[str, int]()

    def acting(self) -> tuple[str, ...]:
        return () if self._said else self.agents

    def observe(self, agent: str) -> str:
        return f"{self._task.prompt} You are {agent}; say a number."

    def step(self, agent: str, action: Action) -> float:
        self._said[agent] = int("0" + "".join(filter(str.isdigit, action.text)))
        return 0.5

    def outcomes(self) -> dict[str, float]:
        best = max(self._said.values())
        return {agent: float(number == best) for agent, number in self._said.items()}


async def test_a_plain_class_plays_and_several_may_act_at_once(
    renderer: DeltaRenderer, encode: Any
) -> None:
    asked: list[str] = []

    async def count(ids: Any, params: Any, session: str, seed: int) -> str:
        asked.append(renderer.decode(ids))
        return f"{len(asked)}<|im_end|>"

    given = config(environment={"type": f"{__name__}:Plain"})
    rollouts = compose_with(given, renderer).rollouts(ScriptedEngine(count, encode=encode))
    (group,) = await rollouts.collect([GroupRequest(0, Task("t", "Play."), 0)])
    assert {t.status for t in group.trajectories} == {Status.COMPLETED}
    assert sorted(t.reward or 0.0 for t in group.trajectories) == [0.5, 0.5, 1.5, 1.5]
    assert len(asked) == 4


async def test_the_page_s_example_plays(renderer: DeltaRenderer, encode: Any) -> None:
    page = Path(__file__).parents[2] / "docs" / "several_agents.md"
    code = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    module = ModuleType("nim")
    exec(code, vars(module))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "nim", module)
        composition = compose_with(config(environment={"type": "nim:Nim"}), renderer)
    rollouts = composition.rollouts(ScriptedEngine(_by_seed, encode=encode))
    (group,) = await rollouts.collect([GroupRequest(0, Task("t", "Play."), 0)])
    assert sorted(t.reward or 0.0 for t in group.trajectories) == [0.0, 0.0, 1.0, 1.0]
    assert {t.status for t in group.trajectories} == {Status.COMPLETED}


def _by_seed(ids: Any, params: Any, session: str, seed: int) -> str:
    return f"take {seed % 3 + 1}<|im_end|>"


async def test_the_plain_calls_refuse_several_agents(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="Nim: has several agents"):
        await generate_rollout_batch(
            ["Play.", "Play."],
            environment_cls=Nim,
            endpoint=ScriptedEngine([]),
            tokenizer=tokenizer,
        )


class Rounds(Plain):
    """Both speak at once, round after round; each round earns a tenth."""

    def acting(self) -> tuple[str, ...]:
        return self.agents

    def step(self, agent: str, action: Action) -> float:
        return 0.1

    def outcomes(self) -> dict[str, float]:
        return {}


async def test_a_move_that_another_s_leaving_cut_earns_nothing(
    renderer: DeltaRenderer, encode: Any
) -> None:
    def write(ids: Any, params: Any, session: str, seed: int) -> str:
        said = renderer.decode(ids)
        rounds = said.count("<|im_start|>assistant")
        long = "You are first" in said and rounds == 3
        return "word " * 600 if long else f"{rounds}<|im_end|>"

    given = config(environment={"type": f"{__name__}:Rounds"})
    rollouts = compose_with(given, renderer).rollouts(ScriptedEngine(write, encode=encode))
    (group,) = await rollouts.collect([GroupRequest(0, Task("t", "Play."), 0)])
    first, second = group.trajectories[:2]
    assert (first.stop_reason, second.stop_reason) == (
        StopReason.MAX_RESPONSE_LEN,
        StopReason.ENVIRONMENT_TRUNCATED,
    )
    assert [len(first.turns), len(second.turns)] == [3, 3]
    assert [first.reward, second.reward] == pytest.approx([0.2, 0.2])


class Unnamed(Plain):
    agents = ("same", "same")


class Unasked(Plain):
    step = None  # type: ignore[assignment]


class Unfinished(MultiAgentEnvironment):
    """Has no methods."""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Unnamed", "Unnamed.agents: .* expected distinct names"),
        ("Unasked", "has no step; expected step\\(agent, action\\)"),
        ("Unfinished", "does not define acting, agents, observe, reset, step"),
    ],
)
def test_a_class_that_cannot_be_one_is_named(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_environment_factory(f"{__name__}:{name}")


async def test_tools_are_told_and_a_lone_seat_is_not_played() -> None:
    seat = make_environment_factory("nim_match:Nim")()
    assert await seat.discover_tools() == ()
    with pytest.raises(ConfigError, match=r"\(first, second\) are episodes of one match"):
        await seat.reset(Task("t", ""), 0)
    await seat.close()
    assert Nim.opened == Nim.closed


@pytest.mark.slow
def test_env_check_plays_each_agent_against_canned_answers() -> None:
    found = check_environment(Subject("lopsided_match:Lopsided", answer="take 2"), seconds=120.0)
    checks = {one.name: one for one in found}
    broken = {name for name, one in checks.items() if one.outcome is Outcome.BROKEN}
    assert broken == {"every answer can be read", "an episode plays through"}
    assert {one.outcome for name, one in checks.items() if name not in broken} == {Outcome.HELD}
    fault, idle = checks["every answer can be read"].findings
    assert (fault.agents, fault.scripts) == (("second",), ("empty", "whitespace"))
    assert "ValueError: the second says nothing" in fault.text
    assert idle.agents == ("third",) and "the match was over before its first turn" in idle.text
