"""Servers that write a run's rollouts, at plan time: what cannot be honoured with them."""

from __future__ import annotations

from backends.base import Problem
from backends.torch.options import TorchOptions
from backends.torch.processes.launching import IN_PROCESS, engine_name
from retrain.config import RunConfig

_NO_UPDATE = ("openai",)
_HYPER = "algorithm.hyperparameters"
_COLOCATE = f"{_HYPER}.torch_colocate"


def server_problems(config: RunConfig, options: TorchOptions) -> list[Problem]:
    """Refuse servers that would go on with old weights, and memory that cannot be shared.

    Args:
        config: The run.
        options: The checked `torch_X` options.
    """
    if config.algorithm.name == "sft":
        return []
    engine, hyper = engine_name(config), config.algorithm.hyperparameters
    refused = (
        (
            engine in _NO_UPDATE,
            "rollout.engine",
            f"{engine} servers load no weights from a folder, so they would go on with the old "
            "ones; use transformers (in this process), sglang (retrain serve is one too) or vllm",
        ),
        (
            options.colocate and engine == IN_PROCESS,
            _COLOCATE,
            f"is for servers, and rollout.engine: {IN_PROCESS} gives its memory back without it; "
            "remove the key",
        ),
        (
            options.colocate and config.asynchronous,
            _COLOCATE,
            "servers that gave their memory to the trainer cannot write the next batch meanwhile; "
            "set rollout.asynchronous: false, or give them devices of their own and remove the key",
        ),
        (
            engine == "vllm" and (hyper.top_p < 1 or hyper.top_k > 0),
            f"{_HYPER}.top_p",
            "vLLM gives logprobs of what top_p and top_k leave, and the loss is over the whole "
            "distribution; set top_p: 1 and top_k: -1",
        ),
        (
            engine == "vllm" and hyper.temperature > 2,
            f"{_HYPER}.temperature",
            f"vLLM takes temperatures from 0 to 2, not {hyper.temperature:g}",
        ),
    )
    return [Problem(key, message) for wrong, key, message in refused if wrong]
