"""The processes of a launch, connected with each other and with their devices."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from backends.base import Plan
from backends.torch.processes.ranks import Ranks
from retrain.errors import BackendFailure, ConfigError
from retrain.launch import Launch

_PATIENCE = timedelta(days=365)
"""How long a process waits for the first one to say what to do."""

_OWN = ("micro_batch_tokens",)
"""Arguments that each process has for itself, by its own memory."""

_PLACE = ("MASTER_ADDR", "MASTER_PORT")


@contextmanager
def connected(launch: Launch, timeout: float) -> Iterator[Ranks]:
    """Connect this process with the others, for the block and those after it.

    There are two groups. Tensors go over NCCL on GPUs and gloo on CPUs, whose calls all processes
    begin at about the same time: one that takes longer than `timeout` has failed. What the first
    process says goes over gloo, where the others wait while it plays episodes, evaluates or writes
    files, however long that takes; a process that ends closes its connections, and those that wait
    for it notice at once. The groups stay: the next stage trains in the same processes, and after a
    failure nobody is told before this process has said why it ends.

    Args:
        launch: Which process this is; alone, nothing is connected.
        timeout: Seconds that a process may take for its part of a step; of stages the first one's.

    Raises:
        ConfigError: The launcher has not said where the others are, or there are too few GPUs.
        BackendFailure: The others did not come.
    """
    if launch.processes == 1:
        yield Ranks()
        return
    device = own_device(launch)
    if not distributed.is_initialized():
        _connect(launch, device, timeout)
    patience = timedelta(seconds=timeout) if launch.first else _PATIENCE  # it only sends
    talk = distributed.new_group(backend="gloo", timeout=patience)
    atexit.unregister(distributed.destroy_process_group)
    ranks = Ranks(launch.processes, launch.rank, device, talk)
    yield ranks
    ranks.wait_for_first()
    atexit.register(distributed.destroy_process_group)


def own_device(launch: Launch) -> torch.device:
    """The device of this process: one GPU each, where there are some; and make it current.

    Raises:
        ConfigError: There are fewer GPUs than processes on this machine.
    """
    if not torch.cuda.is_available():
        return torch.device("cpu")
    there = torch.cuda.device_count()
    if launch.local_rank >= there:
        raise ConfigError(
            f"process {launch.local_rank + 1} of this machine has no GPU, as there are {there}; "
            f"launch at most {there} on it (torchrun --nproc-per-node {there})"
        )
    device = torch.device("cuda", launch.local_rank)
    torch.cuda.set_device(device)
    return device


def require_same_plan(plan: Plan, ranks: Ranks) -> None:
    """Refuse processes that were started with different configurations.

    Raises:
        ConfigError: On every process, naming the first rank and key that differ.
    """
    mine: dict[str, Any] = {**plan.arguments, **_model(plan)}
    first, *others = ranks.gathered([mine])
    for rank, theirs in enumerate(others, start=1):
        differing = sorted(k for k in first if k not in _OWN and theirs.get(k) != first[k])
        if differing:
            key = differing[0]
            raise ConfigError(
                f"{key}: is {theirs.get(key)!r} on rank {rank} and {first[key]!r} on rank 0; start "
                "every process with the same configuration"
            )


def _model(plan: Plan) -> Mapping[str, Any]:
    section = plan.config.model.model_dump(mode="json")
    return {f"model.{name}": value for name, value in section.items()}


def _connect(launch: Launch, device: torch.device, timeout: float) -> None:
    missing = [name for name in _PLACE if name not in os.environ]
    if missing:
        raise ConfigError(
            f"WORLD_SIZE says {launch.processes} processes, and {' and '.join(missing)} not where "
            "they meet; launch with torchrun --nproc-per-node N -m retrain train …"
        )
    cuda = device.type == "cuda"
    try:
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            timeout=timedelta(seconds=timeout),
            device_id=device if cuda else None,
        )
    except distributed.DistError as error:
        reason = str(error).strip().partition("\n")[0]
        raise BackendFailure(
            f"rank {launch.rank} of {launch.processes} did not meet the others ({reason})"
        ) from error


def connected_ranks() -> Ranks:
    """The processes of the default group, and this one's device.

    Raises:
        ConfigError: There is no group.
    """
    if not distributed.is_initialized():
        raise ConfigError(
            "torch.distributed is not initialised; launch with torchrun and call "
            "torch.distributed.init_process_group('gloo' or 'nccl') first"
        )
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
    return Ranks(distributed.get_world_size(), distributed.get_rank(), device)
