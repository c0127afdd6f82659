"""One rank of a scripted run: `python rank_run.py CONFIG OUT [--break-rank N]`.

The engine is scripted by seed, so every launch plays the same episodes. What enters the loss is
written to OUT.RANK.json, and the trained weights' checksum with it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from loss_spy import LossSpy

from backends.trl import grpo
from retrain.config import load_config
from retrain.engine.scripted import ScriptedEngine
from retrain.launch import Launch
from retrain.seeds import derive_seed
from retrain.training import train


class SeededEngine(ScriptedEngine):
    """Writes one to six tokens by seed; fails on one rank where it is told to."""

    def __init__(self, break_rank: int | None) -> None:
        super().__init__(self.write)
        self._broken = break_rank is not None and Launch.of().rank == break_rank

    def write(self, ids: Any, params: Any, session: str, seed: int) -> list[int]:
        if self._broken and self.weight_version != "0":
            raise RuntimeError("the card fell off the bus")
        length = 1 + derive_seed("length", seed) % 6
        tokens = [20 + derive_seed("token", seed, i) % 200 for i in range(length)]
        return [*tokens, min(params.stop_token_ids)]

    def close(self) -> None:
        """Nothing runs."""


def main() -> None:
    config, out = sys.argv[1], Path(sys.argv[2])
    broken = int(sys.argv[4]) if len(sys.argv) > 4 else None
    spy = LossSpy()
    with pytest.MonkeyPatch.context() as patch:
        spy.install(patch)
        patch.setattr(grpo, "make_engine", lambda session: SeededEngine(broken))
        train(load_config(config))
    rows = []
    for batch in spy.batches:
        mask = batch.inputs["completion_mask"] * batch.inputs["tool_mask"]
        for row, sample in enumerate(batch.samples()):
            rows.append(
                {
                    "step": batch.step,
                    "index": sample.index,
                    "tokens": sample.tokens,
                    "mask": mask[row][: sample.response_length].tolist(),
                    "advantage": batch.inputs["advantages"][row].item(),
                    "divisor": float(batch.inputs["num_items_in_batch"]),
                }
            )
    model = spy.trainers[0].accelerator.unwrap_model(spy.trainers[0].model)
    weights = [p.detach().double().sum().item() for p in model.parameters()]
    norms = [p.detach().double().norm().item() for p in model.parameters()]
    path = out.with_name(f"{out.name}.{Launch.of().rank}.json")
    path.write_text(json.dumps({"rows": rows, "sums": weights, "norms": norms}))


if __name__ == "__main__":
    main()
