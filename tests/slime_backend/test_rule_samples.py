"""What slime's trainer reads of samples: one rule of its contract a test."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.framework import framework
from backends.slime.generating import generate_episode
from backends.slime.replay import complete_replay
from backends.slime.samples import flat, reset
from retrain.errors import DataError

RAW = {"temperature": 1.0, "max_new_tokens": 60}
OPTIONAL = (
    "loss_mask",
    "rollout_log_probs",
    "rollout_top_p_token_ids",
    "rollout_top_p_token_offsets",
    "rollout_routed_experts",
    "teacher_log_probs",
    "train_metadata",
    "multimodal_train_inputs",
)
"""slime decides by the first sample of a batch whether they are there, and reads them from all."""
BROKEN = [
    {"id": "good", "prompt": "question"},
    {"id": "reset", "prompt": "question", "broken": "reset"},
    {"id": "step", "prompt": "question", "broken": "step"},
]


def rolled_out(slime_config: Any, slime_args: Any, **options: Any) -> list[Any]:
    rollout = {"engine": "plugin_world:scripted", "max_failure_rate": 1.0}
    config = slime_config(rows=BROKEN, rollout_batch_size=3, sections={"rollout": rollout})
    args = slime_args(config, **options)
    return list(flat(plugin.generate_rollout(args, 0, plugin.DataSource(args)).samples))


def test_trained_tokens_bring_logprobs_and_observations_none(
    slime_config: Any, slime_args: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = framework().sample
    append, pieces = make.append_response_tokens, []

    def spied(self: Any, *given: Any, **named: Any) -> None:
        pieces.append(named)
        append(self, *given, **named)

    monkeypatch.setattr(make, "append_response_tokens", spied)
    samples = rolled_out(slime_config, slime_args)
    trained = [piece for piece in pieces if piece.get("trainable", True)]
    observed = [piece for piece in pieces if not piece.get("trainable", True)]
    assert len(trained) >= 9 and len(observed) >= 6
    assert all(len(piece["log_probs"]) == len(piece["tokens"]) for piece in trained)
    assert all("finish_reason" in piece["meta_info"] for piece in trained), "a turn's own figures"
    assert not any("log_probs" in piece or "meta_info" in piece for piece in observed)
    assert sum(len(piece["tokens"]) for piece in pieces) == sum(s.response_length for s in samples)


@pytest.mark.parametrize(
    "wrong", [{"tokens": [1]}, {"tokens": [1], "log_probs": [0.0], "trainable": False}]
)
def test_the_stand_in_refuses_what_slimes_sample_refuses(wrong: dict[str, Any]) -> None:
    sample = framework().sample(tokens=[5])
    with pytest.raises(ValueError, match=r"log.?probs"):
        sample.append_response_tokens(None, **wrong)


def test_optional_fields_are_on_all_samples_or_on_none(slime_config: Any, slime_args: Any) -> None:
    samples = rolled_out(slime_config, slime_args)
    assert len(samples) == 9 and any(sample.remove_sample for sample in samples)
    for name in OPTIONAL:
        assert len({getattr(sample, name) is None for sample in samples}) == 1, name
    assert samples[0].train_metadata is None, "slime's default split drops it"


def test_failed_episodes_get_replay_fields_of_slimes_shape(
    slime_config: Any, slime_args: Any
) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install 'retrain[engine]'")
    replay = {
        "rollout_top_p": 0.9,
        "use_rollout_routing_replay": True,
        "num_layers": 3,
        "moe_router_topk": 2,
    }
    samples = rolled_out(slime_config, slime_args, **replay)
    for sample in samples:
        offsets = sample.rollout_top_p_token_offsets
        assert len(offsets) == sample.response_length + 1
        assert int(offsets[-1]) == len(sample.rollout_top_p_token_ids)
        assert tuple(sample.rollout_routed_experts.shape) == (len(sample.tokens) - 1, 3, 2)


def test_replay_fields_that_the_server_gave_are_kept() -> None:
    given = Namespace(
        rollout_top_p_token_offsets=[0, 1], rollout_top_p_token_ids=[7], rollout_routed_experts="e"
    )
    complete_replay(given, Namespace(rollout_top_p=0.9, use_rollout_routing_replay=True))
    assert vars(given) == {
        "rollout_top_p_token_offsets": [0, 1],
        "rollout_top_p_token_ids": [7],
        "rollout_routed_experts": "e",
    }


def test_a_sample_that_comes_back_loses_every_field_of_its_response() -> None:
    make = framework().sample
    sample = make(group_index=1, index=2, prompt="kept", label="kept", session_id="kept")
    kept = {"group_index", "index", "rollout_id", "prompt", "label", "session_id", "metadata"}
    kept |= {"generate_function_path", "custom_rm_path", "train_metadata", "multimodal_inputs"}
    kept |= {"multimodal_train_inputs", "multimodal_train_input_id", "apply_chat_template_kwargs"}
    kept |= {"trace"}
    fresh = make()
    for name in vars(fresh).keys() - kept:
        setattr(sample, name, "of before")
    reset(sample)
    for name in vars(fresh).keys() - kept:
        assert getattr(sample, name) == getattr(fresh, name), name
    assert (sample.prompt, sample.label, sample.session_id) == ("kept", "kept", "kept")


def test_siblings_stand_in_one_item_of_a_group_and_flat_in_an_evaluation(
    slime_config: Any, slime_args: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group has exactly n items, however many samples an episode has."""
    sections = {
        "evaluation": {"prompt_source": {"type": "list", "source_config": {"items": ["q"]}}}
    }
    args = slime_args(slime_config(sections=sections))
    split_episodes(args, monkeypatch)
    groups = plugin.generate_rollout(args, 0, plugin.DataSource(args)).samples
    assert [len(group) for group in groups] == [3, 3]
    for item in (item for group in groups for item in group):
        assert isinstance(item, list) and len(item) == 2
        assert len({sibling.rollout_id for sibling in item}) == 1
        assert item[0].rollout_id is not None
        assert len({sibling.reward for sibling in item}) == 1 and item[0].reward is not None
    assert len({item[0].rollout_id for group in groups for item in group}) == 6
    (column,) = plugin.eval_rollout(args, 0, None, evaluation=True).data.values()
    assert len(column["samples"]) == 2
    assert not any(isinstance(sample, list) for sample in column["samples"])
    assert len(column["rewards"]) == len(column["truncated"]) == 1, "one vote for one episode"


def split_episodes(args: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every episode one of two segments, as a rewritten history does."""
    from dataclasses import replace

    from retrain.types import Segment

    bridge = type(context_of(args).composition.environment)
    run = bridge.run

    async def split(self: Any, *given: Any, **named: Any) -> Any:
        played = await run(self, *given, **named)
        (whole,) = played.segments
        first = replace(whole.turns[0], env_ids=())
        rest = Segment((*whole.prompt_ids, *first.output_ids), whole.turns[1:])
        return replace(played, segments=(Segment(whole.prompt_ids, (first,)), rest))

    monkeypatch.setattr(bridge, "run", split)


def test_every_figure_of_a_turn_is_counted(config_and_context: Any) -> None:
    """Speculation, prefix cache and weight versions, summed over the turns of an episode."""
    args, context = config_and_context
    figures = {
        "cached_tokens": 2,
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "weight_version": "v7",
        "spec_accept_token_num": 3,
        "spec_draft_token_num": 5,
        "spec_verify_ct": 1,
        "finish_reason": {"type": "stop"},
    }
    answered(context, figures)
    sample = plugin.DataSource(args).get_samples(1)[0][0]
    asyncio.run(generate_episode(context, args, sample, RAW, False))
    turns = len(sample.metadata["retrain"]["turns"])
    assert turns == 3 and sample.weight_versions == ["v7"] * turns
    cache, spec = sample.prefix_cache_info, sample.spec_info
    assert (cache.cached_tokens, cache.total_prompt_tokens) == (2 * turns, 10 * turns)
    assert (spec.spec_accept_token_num, spec.spec_draft_token_num) == (3 * turns, 5 * turns)
    assert (spec.spec_verify_ct, spec.completion_token_num) == (turns, 4 * turns)
    assert sample.non_generation_time > 0


@pytest.fixture
def config_and_context(slime_config: Any, slime_args: Any) -> tuple[Any, Any]:
    args = slime_args(slime_config(), sglang_speculative_algorithm="EAGLE")
    return args, context_of(args)


def answered(context: Any, figures: dict[str, Any]) -> None:
    """Let the scripted engine leave a server's figures, as `RouterEngine` does."""
    from backends.slime.engine import Answer

    generate = context.engine.generate

    async def with_figures(ids: Any, params: Any, *, seed: int, **turn: Any) -> Any:
        generation = await generate(ids, params, seed=seed, **turn)
        params.answers[seed] = Answer(figures, len(generation.output_ids), 1.0, 2.0, "key")
        return generation

    context.engine.generate = with_figures


@pytest.mark.parametrize("key", ["raw_reward", "round_number"])
def test_columns_that_slime_takes_for_its_own_are_refused(
    slime_config: Any, slime_args: Any, key: str
) -> None:
    rows = [{"id": "a", "prompt": "q"}, {"id": "b", "prompt": "q", key: 1}]
    with pytest.raises(DataError, match=rf"task 'b': slime reads the metadata '{key}' as its own"):
        plugin.DataSource(slime_args(slime_config(rows=rows)))
