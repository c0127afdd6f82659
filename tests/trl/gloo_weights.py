"""NCCL's part of TRL's weight sync, over gloo: what lets a sync run without a GPU.

Only the communicator is another one. The endpoints that are called, their order and their bodies
are TRL's client's own; TRL's look at the device is answered with "cuda".
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

SECONDS = timedelta(seconds=60)


class GlooGroup:
    """A rank of the group that weights are broadcast in; rank 0 is the trainer."""

    def __init__(self, host: str, port: int, rank: int, size: int) -> None:
        self.group: Any = self
        self.store: Any = dist.TCPStore(host, port, size, is_master=rank == 0, timeout=SECONDS)
        self.socket: Any = None
        self._gloo = dist.ProcessGroupGloo(self.store, rank, size, SECONDS)

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> None:
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        self._gloo.broadcast([tensor], options).wait()


def send_over_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have TRL's client send over gloo; it and TRL's trainer take vLLM to be installed."""
    from trl.generation import vllm_client, vllm_generation

    from backends.trl import vllm_planning

    def endpoint(info: dict[str, Any]) -> GlooGroup:
        return GlooGroup(info["master_address"], info["master_port"], 0, info["world_size"])

    def send(iterator: Iterator[Any], group: GlooGroup, src: int, post_iter_func: Any) -> None:
        for item in iterator:
            group.broadcast(post_iter_func(item).detach().contiguous(), src)

    connect = vllm_client.VLLMClient.init_communicator
    replaced = {
        "is_vllm_available": lambda *_, **__: True,
        "get_ip": lambda: "127.0.0.1",
        "open_trainer_endpoint": endpoint,
        "packed_nccl_broadcast_producer": send,
        "_HAS_STATEFUL_TRAINER_ENGINE": True,
        "_HAS_RESET_PREFIX_CACHE_SUCCESS": True,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(vllm_client, name, value, raising=False)
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda *_, **__: True)
    monkeypatch.setattr(vllm_planning, "is_installed", lambda: True)
    monkeypatch.setattr(vllm_planning, "can_take_weights", lambda: True)
    monkeypatch.setattr(
        vllm_client.VLLMClient, "init_communicator", lambda self, device: connect(self, "cuda")
    )
