"""One configuration of the fuzz, recorded and read at the loss of every backend."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any

import pytest
from fuzz_engine import FuzzEngine

from retrain.compose import Composition, compose, load_backend, load_engine, make_buffer, make_tasks
from retrain.config import RunConfig
from retrain.parity import LossReading, Recorded
from retrain.parity.rows import Place


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


@dataclass(frozen=True, slots=True)
class Reading:
    """What one backend made of a configuration's episodes.

    Attributes:
        loss: What entered its loss.
        slopes: What gradient reached the logprobs of each row's response; empty where nobody
            trained.
    """

    loss: LossReading
    slopes: Mapping[Place, tuple[float, ...]] = field(default_factory=dict)


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


def trl_reading(recorded: Recorded) -> Reading:
    """What enters the loss of a real GRPOTrainer, whose forward pass is `fuzz_forward`'s."""
    from fuzz_trainer import WithoutForward

    from backends.trl import parity
    from backends.trl.quiet import quiet_frameworks

    trainers: list[WithoutForward] = []

    def made(**trainer: Any) -> WithoutForward:
        trainers.append(WithoutForward(**trainer))
        return trainers[-1]

    getLogger("trl").setLevel(ERROR)  # it warns of every row without a reward
    with quiet_frameworks(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "LossReader", made)
        return Reading(parity.read_loss(recorded), trainers[0].slopes)


def torch_reading(recorded: Recorded) -> Reading:
    """What enters the loss of the native loop, whose forward pass is `fuzz_forward`'s."""
    from fuzz_native import SlopeReader

    from backends.torch import parity
    from backends.torch.compute import passes

    readers: list[SlopeReader] = []

    def made(*given: Any) -> SlopeReader:
        readers.append(SlopeReader(*given))
        return readers[-1]

    def score(model: Any, micro: Any, *, temperature: float = 1.0) -> Any:
        return readers[0].score(model, micro, temperature=temperature)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "LossReader", made)
        patch.setattr(passes, "score", score)
        return Reading(parity.read_loss(recorded), readers[0].slopes)


def refused_by(backend: str, recorded: Recorded) -> bool:
    """Whether planning for a backend refuses the configuration."""
    return bool(load_backend(backend).plan(recorded.planned).errors)


def slime_reading(recorded: Recorded) -> Reading:
    """What slime's conversion and schedule give, its own code in this process where it is there.

    Its loss is taken where RETRAIN_MEGATRON names a checkout.
    """
    from fuzz_slime import slime_slopes

    from backends.slime import parity, parity_rows
    from backends.slime.planning import make_plan

    def in_this_process(recorded: Recorded, plan: Any, root: Path) -> tuple[Any, str]:
        _make_importable(root)
        copies = plan.sizes["model_copies"]
        return parity_rows.read_rows(recorded, plan.arguments, copies, real=True), ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "_real_rows", in_this_process)
        reading = parity.read_loss(recorded)
    if reading.source.startswith("port"):
        return Reading(reading)
    arguments = make_plan(recorded.planned).arguments
    return Reading(reading, slime_slopes(recorded, reading, arguments))


def _make_importable(root: Path) -> None:
    """Put slime on the path, and what stands in for sglang where that is not installed."""
    from backends.slime import parity

    wanted = parity._python_path(root).split(os.pathsep)
    standins = [] if find_spec("sglang") else [p for p in wanted if p.endswith("standins")]
    sys.path += [p for p in (str(root), *standins) if p not in sys.path]
