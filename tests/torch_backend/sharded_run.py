"""Steps of a sharded model: `torchrun sharded_run.py MODEL FOLDER [--resume]`.

Each process writes FOLDER/RANK.json: the metrics of every step.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

import torch
from torch import distributed

from backends.torch.compute.passes import PassSettings
from backends.torch.compute.schedule import OptimizerSettings
from backends.torch.fsdp import create_fsdp_backend
from backends.torch.objective import PolicyObjective
from backends.torch.rows import TrainingBatch, TrainingRow
from backends.torch.saving.checkpoint_state import newest_checkpoint

BEFORE, AFTER = 2, 2


def batch_of(step: int) -> TrainingBatch:
    """Rows of different lengths, of which the second step has one that trains something."""
    rng = random.Random(step)
    rows = []
    for index in range(5):
        length = rng.randint(2, 12)
        trains = step != 1 or index == 0
        mask = tuple(int(trains and rng.random() < 0.8) for _ in range(length))
        tokens = tuple(rng.randrange(90) for _ in range(4 + length))
        old = tuple(-4.5 + rng.random() for _ in range(length))
        rows.append(TrainingRow(tokens, mask, old, rng.uniform(-1, 1), index))
    return TrainingBatch(tuple(rows)).weighted("token")


async def main() -> None:
    model, folder, resume = sys.argv[1], Path(sys.argv[2]), "--resume" in sys.argv
    backend = create_fsdp_backend(
        model,
        checkpoint_dir=folder / "checkpoints",
        loss_fn=PolicyObjective(kl_coef=0.1),
        optimizer=OptimizerSettings(learning_rate=1e-3),
        passes=PassSettings(micro_batch_tokens=24),
    )
    if resume:
        newest = newest_checkpoint(folder / "checkpoints")
        assert newest is not None
        await backend.load_checkpoint(newest.path)
    found = []
    for step in range(backend.step, backend.step + (AFTER if resume else BEFORE)):
        batch = batch_of(step)
        batch = batch.with_reference(await backend.score(batch, reference=True))
        computed, stepped = backend.forward_backward(batch), backend.optim_step()
        found.append({**await computed, **await stepped})
    await backend.save_checkpoint(backend.step, found[-1])
    backend.close()
    (folder / f"{distributed.get_rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    asyncio.run(main())
    distributed.barrier()
    distributed.destroy_process_group()
