"""Reward functions written for slime, `async rm(args, sample, **kw)`, brought unchanged."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from reward_episodes import make_episode

from bridges.data_format import DataFormatBridge
from retrain.config import RunConfig
from retrain.config.rewards import RewardSetupConfig
from retrain.errors import ConfigError
from retrain.reward import RewardCalculator, build_reward_calculator
from retrain.reward.slime_functions import SlimeStyle
from retrain.sample import Sample, Status
from retrain.types import Segment, Task, Trajectory

SEEN: list[Any] = []


class Renderer:
    """Decodes ids to letters."""

    pad_token_id = 0

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(96 + i) for i in ids)


def build(*names: str, style: bool = True, **configs: Any) -> RewardCalculator:
    entries = {**{name: {} for name in names}, **configs}
    home = {f"{__name__}:{name}": config for name, config in entries.items()}
    setup = RewardSetupConfig.model_validate({"rollout_reward_configs": home})
    arguments = Namespace(reward_key=None, rm_type=None, n_samples_per_prompt=4)
    bridge: Any = DataFormatBridge(Renderer())  # type: ignore[arg-type]
    slime = SlimeStyle(arguments, bridge.to_samples) if style else None
    return build_reward_calculator(setup, environment_rewards=False, slime=slime)


def episode(label: Any = None, visit: int = 0, **metadata: Any) -> Trajectory:
    made = make_episode("one", "two")
    return replace(
        made,
        task=Task("t", "Go.", label=label, metadata=metadata),
        seed=replace(made.seed, visit=visit),
    )


async def rm(args: Any, sample: Any, **kwargs: Any) -> Any:
    """Reads what slime's own rm_hub reads."""
    metadata = sample.metadata if isinstance(sample.metadata, dict) else {}
    rm_type = (metadata.get("rm_type") or args.rm_type or "").strip()
    SEEN.append((args, sample, kwargs))
    return float(rm_type == "letters" and sample.response == sample.label)


async def scored_dict(args: Any, sample: Any, **kwargs: Any) -> Any:
    return {"score": -1.0, "acc": False, "pred": sample.response}


def blocking(args: Any, sample: Any) -> float:
    return float(sample.response_length)


async def batched(args: Any, samples: Any, **kwargs: Any) -> list[float]:
    await asyncio.sleep(0)
    return [float(len(samples)) for _ in samples]


async def with_options(args: Any, sample: Any, bonus: float = 0.0, **kwargs: Any) -> float:
    return bonus + args.scale


async def needs_more(args: Any, sample: Any) -> float:
    return float(args.no_such_option)


async def changing(args: Any, sample: Any) -> float:
    sample.metadata["seen"] = True
    sample.reward, sample.loss_mask[0] = 5.0, 0
    return 1.0


async def test_the_sample_is_what_slime_would_hold() -> None:
    SEEN.clear()
    given = episode("abab", rm_type="letters", extra=[1])

    (scored,) = await build("rm").score([given])

    assert scored.total == 1.0
    ((args, sample, kwargs),) = SEEN
    assert isinstance(sample, Sample) and kwargs == {}
    assert args.n_samples_per_prompt == 4
    assert (sample.response, sample.response_length, sample.tokens) == ("abab", 4, [1, 1, 2, 1, 2])
    assert (sample.prompt, sample.label) == ("Go.", "abab")
    assert sample.metadata == {"rm_type": "letters", "extra": [1]}
    assert sample.loss_mask == [1, 1, 1, 1] and not sample.remove_sample
    assert (sample.reward, sample.status) == (None, Status.COMPLETED)


async def test_dictionaries_are_read_by_their_key_as_with_slimes_reward_key() -> None:
    good, bad = build(scored_dict={"reward_key": "score"}), build("scored_dict")
    assert [s.total for s in await good.score([episode()])] == [-1.0]
    (failed,) = await bad.score([episode()])
    assert failed.error is not None and "mapping of score, acc, pred" in failed.error.reason


async def test_synchronous_functions_are_taken_too() -> None:
    assert [s.total for s in await build("blocking").score([episode()])] == [4.0]


async def test_a_function_of_samples_gets_one_group_as_with_group_rm() -> None:
    calculator = build("batched")
    given = [episode(visit=visit) for visit in (0, 1, 0, 0)]
    assert [s.total for s in await calculator.score(given)] == [3.0, 1.0, 3.0, 3.0]
    assert calculator.needs_groups


async def test_params_stand_on_args_and_are_given_by_name_where_they_are_taken() -> None:
    calculator = build(with_options={"params": {"bonus": 0.25, "scale": 2.0}})
    assert [s.total for s in await calculator.score([episode()])] == [2.25]
    with pytest.raises(ConfigError, match=r"with_options\.params\.bonus: .*number, got 'x'"):
        build(with_options={"params": {"bonus": "x"}})


async def test_an_option_that_is_not_there_is_named() -> None:
    (scored,) = await build("needs_more").score([episode()])
    assert scored.error is not None
    assert "AttributeError: 'Namespace' object has no attribute 'no_such_option'" in (
        scored.error.reason
    )


async def test_what_the_function_changes_is_a_copy() -> None:
    given = episode("x", tests=[1])
    first, second = await build("changing").score([given, given])
    assert (first.total, second.total) == (1.0, 1.0)
    assert given == episode("x", tests=[1])


async def test_an_episode_of_several_segments_is_shown_by_its_last() -> None:
    SEEN.clear()
    made = episode()
    (turn, last) = made.turns
    last = replace(last, output_ids=(3, 4))
    made = replace(made, segments=(Segment((9,), (turn,)), Segment((8, 8), (last,))))

    (scored,) = await build("rm").score([made])

    assert scored.total == 0.0
    ((_, sample, _),) = SEEN
    assert (sample.response, sample.tokens) == ("cd", [8, 8, 3, 4])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs a tokenizer to make them"):
        build("rm", style=False)
    with pytest.raises(ConfigError, match=r"rm\.run_in: process is for functions"):
        build(rm={"run_in": "process"})
    with pytest.raises(ConfigError, match=r"batched\.batch_size: the function takes a whole group"):
        build(batched={"batch_size": 2})
    setup = RewardSetupConfig.model_validate({"step_reward_configs": {f"{__name__}:rm": {}}})
    with pytest.raises(ConfigError, match=r"function of samples; put it under rollout_reward"):
        build_reward_calculator(setup)


def test_args_are_the_runs_hyperparameters_by_both_names() -> None:
    from retrain.compose.rewarding import slime_arguments

    config = RunConfig.model_validate(
        {
            "experiment_name": "args",
            "seed": 7,
            "model": {"name_or_path": "some/model"},
            "environment": {"type": "a:B"},
            "prompt_source": {"type": "list", "source_config": {"items": ["x"]}},
            "algorithm": {
                "name": "grpo",
                "backend": "slime",
                "hyperparameters": {
                    "num_iterations": 3,
                    "max_response_len": 77,
                    "slime_use_fault_tolerance": True,
                },
            },
        }
    )
    args = slime_arguments(config)
    assert (args.max_response_len, args.rollout_max_response_len) == (77, 77)
    assert (args.num_rollout, args.rollout_seed, args.hf_checkpoint) == (3, 7, "some/model")
    assert (args.reward_key, args.rm_type, args.rm_url) == (None, None, None)
    assert args.use_fault_tolerance is True
