"""vLLM through TRL, at plan time: its options, and what cannot be honoured with it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import torch

from backends.base import Problem, Severity
from retrain.config import RunConfig

SERVER, COLOCATED = "server", "colocate"

SERVE = (
    "VLLM_SERVER_DEV_MODE=1 vllm serve {model} --logprobs-mode processed_logprobs "
    """--weight-transfer-config '{{"backend": "nccl"}}'"""
)
"""The command that starts a server which TRL can send weights to."""

_KEY = "algorithm.hyperparameters.trl_{}"
_SHARED = frozenset({"use_vllm", "vllm_mode"})
_OF_MODE: Mapping[str, frozenset[str]] = {
    SERVER: frozenset(
        {
            "vllm_server_base_url",
            "vllm_server_host",
            "vllm_server_port",
            "vllm_server_timeout",
            "vllm_group_port",
        }
    ),
    COLOCATED: frozenset(
        {
            "vllm_gpu_memory_utilization",
            "vllm_max_model_length",
            "vllm_tensor_parallel_size",
            "vllm_enable_sleep_mode",
            "vllm_model_impl",
        }
    ),
}
TAKEN = _SHARED.union(*_OF_MODE.values())
"""TRL's options of vLLM that are passed on."""

HINT = (
    "training on TRL gets its vLLM from TRL, which sends it the weights: set "
    "algorithm.hyperparameters.trl_use_vllm: true, with trl_vllm_mode: server and "
    "trl_vllm_server_base_url, or with trl_vllm_mode: colocate"
)


def uses_vllm(arguments: Mapping[str, Any]) -> bool:
    """Whether a run generates with vLLM."""
    return bool(arguments.get("use_vllm", False))


def server_url(arguments: Mapping[str, Any]) -> str:
    """The server's base URL, as TRL makes it of its options."""
    base = arguments.get("vllm_server_base_url")
    if base is not None:
        return str(base)
    return f"http://{arguments['vllm_server_host']}:{arguments['vllm_server_port']}"


def vllm_share(arguments: Mapping[str, Any]) -> float:
    """The share of the GPU that vLLM in the training process keeps while a batch is trained on.

    A vLLM that sleeps gives it back.
    """
    keeps = uses_vllm(arguments) and arguments["vllm_mode"] == COLOCATED
    if not keeps or arguments["vllm_enable_sleep_mode"]:
        return 0.0
    return float(arguments["vllm_gpu_memory_utilization"])


def vllm_arguments(config: RunConfig, options: Mapping[str, Any]) -> dict[str, Any]:
    """What TRL receives for vLLM, before `trl_X` options are laid over it.

    TRL's own importance sampling correction is off: `importance_correction` is retrain's.
    """
    if not uses_vllm(options):
        return {}
    mode = options.get("vllm_mode", COLOCATED)
    shared = {"vllm_mode": mode, "vllm_importance_sampling_correction": False}
    if mode == SERVER:
        where = {"vllm_server_host": "0.0.0.0", "vllm_server_port": 8000}
        return {**shared, **where, "vllm_server_timeout": 240.0}
    longest = config.algorithm.hyperparameters.max_context_len
    return {
        **shared,
        "vllm_tensor_parallel_size": 1,
        "vllm_gpu_memory_utilization": 0.3,
        "vllm_enable_sleep_mode": False,
        "vllm_max_model_length": longest,
    }


def vllm_problems(config: RunConfig, options: Mapping[str, Any]) -> list[Problem]:
    """Refuse what vLLM through TRL cannot honour.

    Args:
        config: The run.
        options: The checked `trl_X` options.
    """
    if config.algorithm.name == "sft":
        return []
    if not uses_vllm(options):
        return [
            Problem(_KEY.format(name), "is an option of vLLM; set trl_use_vllm: true beside it")
            for name in sorted(options.keys() & TAKEN - {"use_vllm"})
        ]
    mode = options.get("vllm_mode", COLOCATED)
    if mode not in _OF_MODE:
        return [Problem(_KEY.format("vllm_mode"), f"{mode!r}; expected {SERVER} or {COLOCATED}")]
    other = COLOCATED if mode == SERVER else SERVER
    found = [
        Problem(_KEY.format(name), f"belongs to trl_vllm_mode: {other}, and it is {mode}")
        for name in sorted(options.keys() & _OF_MODE[other])
    ]
    of_mode = _server_problems if mode == SERVER else _colocated_problems
    return [*found, *_missing(), *_shared_problems(config), *of_mode(config, options)]


def _missing() -> list[Problem]:
    if is_installed():
        return []
    text = "vLLM is not installed; pip install 'trl[vllm]' (Linux with an NVIDIA GPU)"
    return [Problem(_KEY.format("use_vllm"), text)]


def is_installed() -> bool:
    """Whether vLLM can be imported; TRL's client needs it too, in either mode."""
    return find_spec("vllm") is not None


def can_take_weights() -> bool:
    """Whether vLLM can get new weights from this machine: that takes a GPU in both modes."""
    return torch.cuda.is_available()


def _shared_problems(config: RunConfig) -> list[Problem]:
    hyper, peft = config.algorithm.hyperparameters, config.model.peft
    cut = hyper.top_p < 1 or hyper.top_k > 0
    refused = [
        (
            "algorithm.hyperparameters.top_p",
            cut,
            "TRL's vLLM gives logprobs of what top_p and top_k leave, and the loss is over the "
            "whole distribution; set top_p: 1 and top_k: -1",
        ),
        (
            "algorithm.hyperparameters.temperature",
            hyper.temperature > 2,
            f"vLLM takes temperatures from 0 to 2, not {hyper.temperature:g}",
        ),
        (
            "model.peft.bits",
            peft is not None and peft.bits is not None,
            "a merged adapter cannot be sent to vLLM in quantised weights; leave bits out, or "
            "generate in this process without trl_use_vllm",
        ),
    ]
    return [Problem(key, text) for key, wrong, text in refused if wrong]


def _server_problems(config: RunConfig, options: Mapping[str, Any]) -> list[Problem]:
    found = _needs_gpu(
        "TRL sends the weights to a server over NCCL, from a GPU of the trainer's own"
    )
    base = options.get("vllm_server_base_url")
    parts = urlsplit(base or "http://host")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        text = f"{base!r}; TRL expects http://HOST:PORT, without a path such as /v1"
        found.append(Problem(_KEY.format("vllm_server_base_url"), text))
    return found


def _needs_gpu(reason: str) -> list[Problem]:
    if can_take_weights():
        return []
    text = f"{reason}; this machine has no GPU, so leave trl_use_vllm out to generate without vLLM"
    return [Problem(_KEY.format("use_vllm"), text)]


def _colocated_problems(config: RunConfig, options: Mapping[str, Any]) -> list[Problem]:
    found = _needs_gpu("on a CPU vLLM packs its weights, and TRL cannot load others over them")
    workers = options.get("vllm_tensor_parallel_size", 1)
    if workers > 1:
        text = (
            f"{workers} processes would have to take every step of vLLM together, and episodes "
            "end at different times, so they would wait for each other for ever; use 1, or "
            "trl_vllm_mode: server with a server of --tensor-parallel-size "
            f"{workers}"
        )
        found.append(Problem(_KEY.format("vllm_tensor_parallel_size"), text))
    longest, room = config.algorithm.hyperparameters.max_context_len, "vllm_max_model_length"
    given = options.get(room)
    if given is not None and longest is not None and given < longest:
        text = f"{given} tokens, and an episode may have max_context_len {longest}; raise it"
        found.append(Problem(_KEY.format(room), text))
    if options.get("vllm_enable_sleep_mode"):
        text = (
            "follows TRL's order of waking and sleeping; it has not been run with retrain on a GPU"
        )
        key = _KEY.format("vllm_enable_sleep_mode")
        found.append(Problem(key, text, Severity.WARNING))
    return found
