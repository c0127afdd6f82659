"""A run with vLLM, and what must hold after it."""

from __future__ import annotations

from typing import Any

from retrain.training import train

HELD_OUT = {"type": "list", "source_config": {"items": ["held out", "and this"]}}


def vllm_config(config: Any, **options: Any) -> Any:
    """Three iterations with large steps, and an evaluation before and after them."""
    defaults = {
        "num_iterations": 3,
        "temperature": 0.8,
        "trl_use_vllm": True,
        "learning_rate": 3e-3,
        "max_context_len": 200,
        "sections": {"evaluation": {"prompt_source": HELD_OUT, "n_samples_per_prompt": 1}},
    }
    return config(**{**defaults, **options})


def check_that_weights_follow(config: Any, spy: Any, **options: Any) -> None:
    """Train, and compare vLLM's logprobs of every iteration with the trainer's."""
    result = train(vllm_config(config, **options))
    assert result.iterations == 3
    assert {batch.step for batch in spy.batches} == {0, 1, 2}
    assert result.metrics["train/logprob_abs_diff"] < 1e-5
    for batch in spy.batches:
        for row, sample in enumerate(batch.samples()):
            mask = batch.inputs["tool_mask"][row][: sample.response_length].bool()
            engine = batch.inputs["old_per_token_logps"][row][: sample.response_length]
            trainer = batch.logps[row][: sample.response_length]
            assert (engine - trainer)[mask].abs().max().item() < 1e-4
            assert {*sample.weight_versions} == {str(batch.step)}
        assert "importance_sampling_ratio" not in batch.inputs, "TRL's own correction is off"
