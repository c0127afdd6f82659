"""One configuration of the fuzz, recorded and read at the loss of both backends."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any

import pytest
from fuzz_engine import FuzzEngine

from retrain.compose import Composition, compose, load_engine, make_buffer, make_tasks
from retrain.config import RunConfig
from retrain.parity import LossReading, Recorded


@dataclass(frozen=True, slots=True)
class Played:
    """A configuration's episodes.

    Attributes:
        recorded: Its groups, as a tape would hold them.
        composition: The bridges.
        engine: What wrote the turns, with its log.
    """

    recorded: Recorded
    composition: Composition
    engine: FuzzEngine


@contextmanager
def shared_tokenizers() -> Iterator[None]:
    """Read each tokenizer once: one of 150,000 tokens takes as long as a hundred episodes."""
    from transformers import AutoTokenizer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoTokenizer, "from_pretrained", cache(AutoTokenizer.from_pretrained))
        yield


def play(config: RunConfig) -> Played:
    """Play a whole run's groups once, without any framework."""
    composition = compose(config)
    engine: Any = load_engine(config.rollout.engine, composition)
    hyper = config.algorithm.hyperparameters
    count = (hyper.num_iterations or 1) * hyper.rollout_batch_size
    requests = make_buffer(config, make_tasks(config)).draw(count)
    groups = asyncio.run(composition.rollouts(engine).collect(requests))
    return Played(Recorded(config, tuple(groups), ()), composition, engine)


def trl_reading(recorded: Recorded) -> LossReading:
    """What enters the loss of a real GRPOTrainer, whose forward pass is left out.

    What enters the loss does not depend on it, and over a vocabulary of 150,000 it takes long.
    """
    from fuzz_trainer import WithoutForward

    from backends.trl import parity
    from backends.trl.quiet import quiet_frameworks

    getLogger("trl").setLevel(ERROR)  # it warns of every row without a reward
    with quiet_frameworks(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "LossReader", WithoutForward)
        return parity.read_loss(recorded)


def refused_by_trl(recorded: Recorded) -> bool:
    """Whether planning for TRL refuses it, as it must an episode of several segments."""
    from backends.trl.backend import TRLBackend

    return bool(TRLBackend().plan(recorded.planned).errors)


def slime_reading(recorded: Recorded) -> LossReading:
    """What slime's conversion and schedule give, its own code in this process where it is there."""
    from backends.slime import parity, parity_rows

    def in_this_process(recorded: Recorded, plan: Any, root: Path) -> tuple[Any, str]:
        _make_importable(root)
        copies = plan.sizes["model_copies"]
        return parity_rows.read_rows(recorded, plan.arguments, copies, real=True), ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "_real_rows", in_this_process)
        return parity.read_loss(recorded)


def _make_importable(root: Path) -> None:
    """Put slime on the path, and what stands in for sglang where that is not installed."""
    from backends.slime import parity

    wanted = parity._python_path(root).split(os.pathsep)
    standins = [] if find_spec("sglang") else [p for p in wanted if p.endswith("standins")]
    sys.path += [p for p in (str(root), *standins) if p not in sys.path]
