"""slime calls the functions by position and by name: their parameters belong to its contract."""

from __future__ import annotations

import asyncio
import inspect
from argparse import Namespace
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.framework import framework

SIGNATURES = {
    "generate": "(args, sample, sampling_params, evaluation=False)",
    "generate_rollout": "(args, rollout_id, data_source, evaluation=False)",
    "eval_rollout": "(args, rollout_id, data_source, evaluation=False)",
    "sft_rollout": "(args, rollout_id, data_source, evaluation=False)",
    "reward": "(args, sample, **kwargs)",
    "group_reward": "(args, samples, **kwargs)",
    "dynamic_filter": "(args, samples, **kwargs)",
    "buffer_filter": "(args, rollout_id, buffer, num_samples)",
    "reward_post_process": "(args, samples)",
    "log_rollout": "(rollout_id, args, samples, rollout_extra_metrics, rollout_time)",
    "log_eval": "(rollout_id, args, data, extra_metrics)",
    "DataSource": "(args)",
}
ASYNCHRONOUS = {"generate", "reward", "group_reward"}
SEVEN = {
    "partial_rollout": False,
    "mask_offpolicy_in_partial_rollout": False,
    "group_rm": False,
    "custom_generate_function_path": None,
    "sglang_enable_deterministic_inference": False,
    "rollout_seed": 7,
    "n_samples_per_prompt": 2,
}
"""All that slime's contract test of `generate` puts on `args`; it starts no server."""


def bare(function: Any) -> str:
    signature = inspect.signature(function)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(plain)).replace("= False", "=False")


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_function_takes_what_slime_passes(name: str) -> None:
    function = getattr(plugin, name)
    assert bare(function) == SIGNATURES[name]
    assert inspect.iscoroutinefunction(function) == (name in ASYNCHRONOUS)
    assert {*SIGNATURES} == {*plugin.__all__}


def test_the_data_source_has_the_methods_that_slime_calls() -> None:
    methods = {
        "get_samples": "(self, num_samples)",
        "add_samples": "(self, samples)",
        "save": "(self, rollout_id)",
        "load": "(self, rollout_id=None)",
        "__len__": "(self)",
    }
    for name, signature in methods.items():
        assert bare(getattr(plugin.DataSource, name)).replace("= None", "=None") == signature


@pytest.mark.parametrize("evaluation", [False, True])
def test_an_episode_is_played_without_a_server_or_a_configuration(evaluation: bool) -> None:
    sample = framework().sample(index=0, prompt="a prompt", label="a label")
    raw = {"max_new_tokens": 32, "temperature": 1.0}
    played = asyncio.run(plugin.generate(Namespace(**SEVEN), sample, raw, evaluation=evaluation))
    assert played is sample
    assert sample.status == type(sample).Status.COMPLETED
    assert sample.response and sample.reward is not None
    assert sample.loss_mask == [1] * sample.response_length


def test_rollouts_without_arguments_have_slimes_shape() -> None:
    groups = plugin.generate_rollout(None, 0, plugin.DataSource(None)).samples
    assert [len(group) for group in groups] == [2, 2], "two prompts, two samples of each"
    held_out = plugin.eval_rollout(None, 0, None, evaluation=True).data
    (columns,) = held_out.values()
    assert {*columns} == {"rewards", "truncated", "samples"}
    assert len({len(column) for column in columns.values()}) == 1
