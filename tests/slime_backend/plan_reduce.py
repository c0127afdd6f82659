"""Reduce a loss with slime's own reducer and Megatron's groups; prints JSON."""

from __future__ import annotations

import json
import os
from argparse import Namespace

import torch
from megatron.core import mpu
from megatron.training import global_vars

from backends.slime.loss_reducer import constant_denominator


def main() -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    mpu.initialize_model_parallel()
    global_vars.set_args(Namespace(rollout_max_response_len=8))
    masks = [torch.tensor([1.0, 0.0, 1.0]), torch.tensor([1.0, 1.0])]
    reduce = constant_denominator([5, 4], [3, 2], masks, False)
    losses = torch.tensor([1.0, 100.0, 2.0, 3.0, 4.0], requires_grad=True)
    total = reduce(losses)
    total.backward()
    print(json.dumps({"total": total.item(), "gradient": losses.grad.tolist()}))


if __name__ == "__main__":
    main()
