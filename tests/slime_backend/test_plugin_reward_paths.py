"""One calculator behind slime's single, group and batched paths, and behind our own collector."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from counted_rewards import CALLS

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.samples import flat
from retrain.errors import ConfigError
from retrain.report.metrics import read_metrics
from retrain.reward.shaping import TOTAL

RAW = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "max_new_tokens": 200}
ENGINE = {"engine": "plugin_world:scripted"}
SLIME_OWNS = {**ENGINE, "owner": "slime"}
NORMALISED = {
    "normalisation": "running",
    "clip": [-2, 2],
    "rollout_reward_configs": {
        "counted_rewards:length": {"normalisation": "running", "weight": 0.5},
        "counted_rewards:slimes": {"reward_key": "score", "normalisation": "rank"},
    },
}
GROUPED = {
    "rollout_reward_configs": {"counted_rewards:best": {}, "counted_rewards:length": {}},
    "combination": "mean",
}


@pytest.fixture
def args_for(slime_config: Any, slime_args: Any) -> Any:
    """Makes slime's arguments for a reward setup, each with a new context."""

    def make(setup: Any, rollout: Any = ENGINE, **options: Any) -> Any:
        hyper = options.pop("hyper", {})
        world = options.pop("environment", {"type": "plugin_world:World"})
        sections = {"reward_setup": setup, "rollout": rollout, "environment": world}
        CALLS.clear()
        return slime_args(slime_config(sections=sections, **hyper), **options)

    return make


def collected(args: Any, source: Any, rollout_id: int) -> list[Any]:
    """A rollout that retrain fills."""
    return list(plugin.generate_rollout(args, rollout_id, source).samples)


def generated(args: Any, source: Any, rollout_id: int) -> list[Any]:
    """A rollout as slime's own manager fills it: sample by sample, each group then scored."""
    groups = source.get_samples(2)
    for group in groups:
        group[:] = [asyncio.run(plugin.generate(args, member, RAW)) for member in group]
        flattened = list(flat(group))
        if getattr(args, "group_rm", False):
            rewards = asyncio.run(plugin.group_reward(args, flattened))
        else:
            rewards = asyncio.run(plugin.reward(args, flattened))
        for member, reward in zip(flattened, rewards, strict=True):
            member.reward = reward
    return list(groups)


def trained(args: Any, fill: Any, rollouts: int = 2) -> list[tuple[list[Any], list[float]]]:
    """Raw rewards and advantages of some rollouts, through slime's hooks in slime's order."""
    source = plugin.DataSource(args)
    found = []
    for rollout_id in range(rollouts):
        samples = list(flat(fill(args, source, rollout_id)))
        plugin.log_rollout(rollout_id, args, samples, {}, 1.0)
        found.append(plugin.reward_post_process(args, samples))
        assert plugin.reward_post_process(args, samples) == found[-1], "as often as it is asked"
    return found


def test_both_owners_train_on_the_same_normalised_rewards(args_for: Any) -> None:
    args = args_for(NORMALISED)
    ours = trained(args, collected)
    state = context_of(args).composition.rewards.state_dict()
    assert CALLS == {"length": 12, "slimes": 12}

    args = args_for(NORMALISED, SLIME_OWNS)
    theirs = trained(args, generated)

    assert theirs == ours
    assert context_of(args).composition.rewards.state_dict() == state
    assert state["moments"]["length"]["count"] == 12
    assert CALLS == {"length": 12, "slimes": 12}, "nothing is computed twice"
    assert any(any(values) for _, values in ours)


def test_normalised_values_stand_beside_raw_ones_in_the_run_folder(args_for: Any) -> None:
    args = args_for(NORMALISED, SLIME_OWNS)
    ((raw, _),) = trained(args, generated, 1)
    run = context_of(args).run_dir
    assert run is not None
    (row,) = read_metrics(run / "metrics.jsonl")
    assert row.values["reward/mean"] == pytest.approx(sum(raw) / len(raw))
    assert row.values["reward/trained/length"] == pytest.approx(0.0, abs=1e-9)
    assert row.values["reward/trained/slimes"] == pytest.approx(0.0, abs=1e-9)
    assert "reward/trained/mean" in row.values
    lines = [json.loads(n) for n in (run / "samples" / "1.jsonl").read_text().splitlines()]
    lengths = [line["rewards"]["length"] for line in lines]
    assert row.values["reward/length"] == pytest.approx(sum(lengths) / 6)
    first = lines[0]
    assert set(first["rewards"]) == {"environment", "length", "slimes"}
    assert set(first["rewards_normalised"]) == {"length", "slimes"}
    assert first["reward"] == raw[0] and first["reward_trained"] is not None


def test_an_episode_that_cannot_be_normalised_is_removed(args_for: Any) -> None:
    setup = {
        "combination": "counted_rewards:not_the_first",
        "rollout_reward_configs": {"counted_rewards:length": {"normalisation": "rank"}},
    }
    args = args_for(setup, SLIME_OWNS)
    samples = list(flat(generated(args, plugin.DataSource(args), 0)))
    plugin.log_rollout(0, args, samples, {}, 1.0)
    _, values = plugin.reward_post_process(args, samples)
    removed = [n for n, sample in enumerate(samples) if sample.remove_sample]
    assert removed and len(removed) < 6
    assert [values[n] for n in removed] == [0.0] * len(removed)


def test_a_group_function_scores_through_group_rm(args_for: Any) -> None:
    ours = trained(args_for(GROUPED), collected)
    assert CALLS == {"best": 4, "length": 12}

    hyper = {"hyper": {"slime_group_rm": True}}
    theirs = trained(args_for(GROUPED, SLIME_OWNS, group_rm=True, **hyper), generated)

    assert theirs == ours
    assert CALLS == {"best": 4, "length": 12}, "one call for each group"


def test_a_group_function_is_refused_where_no_group_comes(args_for: Any) -> None:
    args = args_for(GROUPED, SLIME_OWNS)
    with pytest.raises(ConfigError, match=r"best is given whole groups.*slime_group_rm: true"):
        plugin.DataSource(args)


def test_rewards_are_mappings_where_slime_reads_them_by_a_key(args_for: Any) -> None:
    plain = trained(args_for(NORMALISED), collected, 1)
    for rollout, fill in ((ENGINE, collected), (SLIME_OWNS, generated)):
        args = args_for(NORMALISED, rollout, reward_key="score")
        source = plugin.DataSource(args)
        samples = list(flat(fill(args, source, 0)))
        assert all(set(sample.reward) == {"score"} for sample in samples)
        assert [sample.get_reward_value(args) for sample in samples] == plain[0][0]
        plugin.log_rollout(0, args, samples, {}, 1.0)
        assert plugin.reward_post_process(args, samples) == plain[0]


def test_an_episode_of_many_samples_is_scored_and_counted_once(args_for: Any) -> None:
    world = {"type": "splitting_world:Splitting"}
    args = args_for(NORMALISED, SLIME_OWNS, environment=world)
    source = plugin.DataSource(args)
    samples = list(flat(generated(args, source, 0)))
    assert len(samples) > 6
    plugin.log_rollout(0, args, samples, {}, 1.0)
    raw, values = plugin.reward_post_process(args, samples)

    moments = context_of(args).composition.rewards.state_dict()["moments"]
    assert (moments["length"]["count"], moments[TOTAL]["count"]) == (6, 6)
    assert CALLS == {"length": 6, "slimes": 6}
    by_episode: dict[Any, set[Any]] = {}
    for sample, reward, value in zip(samples, raw, values, strict=True):
        by_episode.setdefault(sample.rollout_id, set()).add((reward, value))
    assert len(by_episode) == 6 and all(len(same) == 1 for same in by_episode.values())


def test_running_statistics_are_saved_with_the_place_in_the_data(args_for: Any) -> None:
    expected = trained(args_for(NORMALISED), collected, 3)

    args = args_for(NORMALISED)
    source = plugin.DataSource(args)
    for rollout_id in range(2):
        plugin.log_rollout(rollout_id, args, list(flat(collected(args, source, rollout_id))), {}, 1)
    source.save(0)
    resumed = plugin.DataSource(args)
    resumed.load(0)
    found = [post(args, collected(args, resumed, rollout_id)) for rollout_id in (1, 2)]

    assert found == expected[1:]


def post(args: Any, samples: Sequence[Any]) -> Any:
    return plugin.reward_post_process(args, list(flat(samples)))


def test_text_that_another_function_generated_is_normalised_too(args_for: Any) -> None:
    from transformers import AutoTokenizer

    ranked = {"counted_rewards:length": {"normalisation": "rank"}}
    args = args_for({"rollout_reward_configs": ranked})
    (group, _) = plugin.DataSource(args).get_samples(2)
    tokenizer = AutoTokenizer.from_pretrained(args.hf_checkpoint)
    for member, text in zip(group, ("four", "a", "seventeen"), strict=True):
        ids = tokenizer.encode(text, add_special_tokens=False)
        member.tokens, member.response, member.response_length = [1, *ids], text, len(ids)
        member.rollout_log_probs = [-0.5] * len(ids)
        member.status = type(member).Status.COMPLETED
    rewards = asyncio.run(plugin.reward(args, group))
    for member, reward in zip(group, rewards, strict=True):
        member.reward = reward
    raw, values = plugin.reward_post_process(args, group)
    assert raw == [4.0, 1.0, 9.0]
    assert values == pytest.approx([0.0, -1.0, 1.0], abs=1e-5)


def test_what_another_function_fanned_out_is_scored_once_by_its_last_sample(args_for: Any) -> None:
    from transformers import AutoTokenizer

    args = args_for({"rollout_reward_configs": {"counted_rewards:length": {}}})
    (group, _) = plugin.DataSource(args).get_samples(2)
    tokenizer = AutoTokenizer.from_pretrained(args.hf_checkpoint)
    siblings = [copy.copy(group[0]), copy.copy(group[0])]
    for sibling, text in zip(siblings, ("a", "seventeen"), strict=True):
        ids = tokenizer.encode(text, add_special_tokens=False)
        sibling.tokens, sibling.response, sibling.response_length = [1, *ids], text, len(ids)
        sibling.rollout_log_probs, sibling.rollout_id = [-0.5] * len(ids), group[0].index
        sibling.status = type(sibling).Status.COMPLETED
    assert asyncio.run(plugin.reward(args, siblings)) == [9.0, 9.0]
    assert CALLS == {"length": 1}


def test_rewards_of_somebody_else_stay_raw(args_for: Any) -> None:
    args = args_for(NORMALISED)
    (group, _) = plugin.DataSource(args).get_samples(2)
    for n, member in enumerate(group):
        member.tokens, member.response_length, member.reward = [1, 2], 1, float(n)
        member.status = type(member).Status.COMPLETED
    assert post(args, group)[1] == pytest.approx([-1.0, 0.0, 1.0], abs=1e-5)
