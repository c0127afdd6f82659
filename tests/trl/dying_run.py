"""One rank of a run in which a rank dies: `python dying_run.py CONFIG RANK collection|step HOW`.

HOW is "kill" (SIGKILL, as the kernel does when memory runs out), "stop" (it hangs) or "raise". It
happens in the second iteration: while the rank plays, or between its forward and backward pass.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
from rank_run import SeededEngine

from backends.trl import grpo
from backends.trl.trainer import BridgedGRPOTrainer
from retrain.config import load_config
from retrain.errors import RetrainError
from retrain.launch import Launch
from retrain.training import train


class DyingEngine(SeededEngine):
    """Ends its process in the second iteration."""

    def __init__(self, die: Callable[[], None] | None) -> None:
        super().__init__(None)
        self._die = die

    def write(self, *asked: Any) -> list[int]:
        if self._die is not None and self.weight_version != "0":
            self._die()
        return super().write(*asked)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def raised() -> None:
    raise RuntimeError("the card fell off the bus")


def main() -> None:
    config, rank, place, how = sys.argv[1:]
    die = (
        {"kill": killed, "stop": stopped, "raise": raised}[how]
        if Launch.of().rank == int(rank)
        else None
    )
    compute_loss = BridgedGRPOTrainer._compute_loss

    def dying_loss(self: Any, model: Any, inputs: Any) -> Any:
        loss = compute_loss(self, model, inputs)
        if die is not None and self.state.global_step >= 2:
            die()
        return loss

    with pytest.MonkeyPatch.context() as patch:
        engine = DyingEngine(die if place == "collection" else None)
        patch.setattr(grpo, "make_engine", lambda session: engine)
        if place == "step":
            patch.setattr(BridgedGRPOTrainer, "_compute_loss", dying_loss)
        try:
            train(load_config(config))
        except RetrainError as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
