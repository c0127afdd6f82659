"""The canned cases, played by the real bridges: groups, and the samples that they become."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from retrain.compose import Composition, compose_with
from retrain.config import RunConfig
from retrain.engine.base import InferenceEngine
from retrain.parity import LossRow
from retrain.parity.report import expected_rows
from retrain.rendering import DeltaRenderer
from retrain.rollout.request import GroupRequest
from retrain.sample import Sample
from retrain.testing.canned.cases import CASES, MEMBERS, Case
from retrain.testing.canned.engine import CannedEngine, Encode, write_answers
from retrain.testing.tokenizer import kit_renderer, kit_tokenizer
from retrain.types import Group, Task

RUN_SEED = 11
MAX_RESPONSE_LEN = 320
MAX_TURNS = 4
_WORLD = "retrain.testing.canned.world"


@dataclass(frozen=True, slots=True)
class CannedGroup:
    """A case as it was played.

    Attributes:
        case: The case.
        group: Its group, scored, with the advantages.
        slots: [G] the samples of each episode; several where its history was rewritten.
    """

    case: Case
    group: Group
    slots: tuple[tuple[Sample, ...], ...]

    @property
    def samples(self) -> list[Sample]:
        """All samples, slot by slot."""
        return [sample for slot in self.slots for sample in slot]

    @property
    def expected(self) -> tuple[LossRow, ...]:
        """What must enter the loss, in the order of `samples`."""
        return expected_rows(self.slots)


def canned_config(model: str | Path = "canned", *, rewrites: bool = False) -> RunConfig:
    """The configuration that plays the cases.

    Args:
        model: Where a backend that loads the model itself finds it.
        rewrites: Whether it plays those that rewrite their history.
    """
    hyperparameters = {
        "num_iterations": 1,
        "rollout_batch_size": len(CASES),
        "n_samples_per_prompt": MEMBERS,
        "max_response_len": MAX_RESPONSE_LEN,
    }
    document: dict[str, object] = {
        "experiment_name": "testing",
        "seed": RUN_SEED,
        "output_dir": str(Path(gettempdir()) / "retrain-testing"),
        "model": {"name_or_path": str(model), "threads": 1},
        "environment": {
            "type": f"{_WORLD}:CannedWorld",
            "env_specific_config": {"rewrites": rewrites},
        },
        "prompt_source": {"type": "list", "source_config": {"items": ["unused"]}},
        "reward_setup": {"rollout_reward_configs": {f"{_WORLD}:length_reward": {}}},
        "rollout": {
            "max_turns": MAX_TURNS,
            "max_failure_rate": 1.0,
            "failure": dict.fromkeys(("environment", "tool", "engine"), "mask"),
        },
        "algorithm": {"name": "grpo", "backend": "trl", "hyperparameters": hyperparameters},
    }
    return RunConfig.model_validate(document)


def canned_engine(cases: Sequence[Case], renderer: DeltaRenderer, encode: Encode) -> CannedEngine:
    """The engine that writes the turns of cases."""
    return CannedEngine(write_answers(cases, renderer, encode, RUN_SEED))


def requests_for(cases: Sequence[Case]) -> list[GroupRequest]:
    """What is to be played: one group for each case, counted from 0."""
    return [
        GroupRequest(index, Task(case.name, case.prompt, images=case.images), 0)
        for index, case in enumerate(cases)
    ]


def play_cases(
    cases: Sequence[Case],
    composition: Composition | None = None,
    engine: InferenceEngine | None = None,
) -> tuple[CannedGroup, ...]:
    """Play cases.

    Args:
        cases: The cases.
        composition: The bridges; those over the kit's own tokenizer where None.
        engine: Writes the turns; the scripted one where None.
    """
    if composition is None:
        rewrites = any(case.rewrites for case in cases)
        composition = compose_with(canned_config(rewrites=rewrites), kit_renderer())
    if engine is None:
        engine = canned_engine(cases, composition.renderer, kit_tokenizer().encode)
    rollouts = composition.rollouts(engine)
    groups = asyncio.run(rollouts.collect(requests_for(cases)))
    sampled = composition.data_format.group_samples
    return tuple(
        CannedGroup(case, group, tuple(map(tuple, sampled(group))))
        for case, group in zip(cases, groups, strict=True)
    )
