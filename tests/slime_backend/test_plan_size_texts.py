"""How each size of a slime plan follows from the configuration, in the words of `plan`."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_configs import ASYNCHRONOUS, COLOCATED, LAPTOP, SFT, Make, make_config

from backends.slime.planning import make_plan
from retrain.cli.sizes import explained_sizes

ON_EIGHT = {**COLOCATED, "hyper": {**COLOCATED["hyper"], "slime_context_parallel_size": 2}}
BOUNDED = {**SFT, "hyper": {**SFT["hyper"], "max_context_len": 700}}
GIVEN = {**SFT, "hyper": {**SFT["hyper"], "slime_max_tokens_per_gpu": 4096}}


@pytest.mark.parametrize(
    ("make", "texts"),
    [
        (
            COLOCATED,
            {
                "longest_row_tokens": "9216 = max_prompt_len 1024 + max_response_len 8192",
                "max_tokens_per_gpu": "9216 = the longest row",
                "training_gpus": "8 = 1 x 8 GPUs of a node",
                "model_copies": "4 = 8 GPUs that train / (tensor 2 x pipeline 1 x context 1)",
                "engines": "4 = 8 GPUs that generate / 2 per engine",
                "gpus": "8 = the engines stand on the GPUs that train",
            },
        ),
        (
            ON_EIGHT,
            {
                "max_tokens_per_gpu": "8192 = the default; the longest row / 2 GPUs that share it "
                "is 4608",
                "model_copies": "2 = 8 GPUs that train / (tensor 2 x pipeline 1 x context 2)",
            },
        ),
        (
            ASYNCHRONOUS,
            {
                "longest_row_tokens": "2560 = a prompt of 512, assumed + max_response_len 2048",
                "engines": "4 = 4 GPUs that generate / 1 per engine",
                "gpus": "8 = 4 that train + 4 that generate",
            },
        ),
        (SFT, {"engines": "0 = sft generates nothing"}),
        (BOUNDED, {"longest_row_tokens": "700 = max_context_len"}),
        (GIVEN, {"max_tokens_per_gpu": "4096 = slime_max_tokens_per_gpu"}),
        (LAPTOP, {"engines": "0 = none is started: another server answers"}),
    ],
)
def test_every_size_says_where_it_comes_from(
    make: Make, texts: dict[str, str], tmp_path: Path
) -> None:
    explained = explained_sizes(make_plan(make_config(tmp_path, make)))
    assert {name: explained[name] for name in texts} == texts
    assert all(" = " in text for text in explained.values())
