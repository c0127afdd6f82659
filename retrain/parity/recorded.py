"""A tape as training material: its groups in the order drawn, and the configuration that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrain.errors import BackendFailure, ConfigError, DataError
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.request import GroupRequest
from retrain.rollout.tape import Tape
from retrain.types import Group

if TYPE_CHECKING:
    from retrain.config import RunConfig

TAPE_ENGINE = "retrain.rollout.tape.building:build_tape"
"""The engine of a configuration that plays a tape."""

_CHOOSING = (
    *("over_sampling_factor", "partial", "buffer_filter", "max_staleness", "mask_stale_tokens"),
    *("filter", "filter_fallback", "max_refills", "asynchronous"),
)


class RecordedOrder(DataBuffer):
    """A data buffer that draws what a tape holds, once, in the order recorded."""

    def __init__(self, requests: Sequence[GroupRequest]) -> None:
        """Take the groups that are to be drawn."""
        super().__init__([request.task for request in requests], seed=0, shuffle=False)
        self._requests = list(requests)

    def draw(self, count: int) -> list[GroupRequest]:
        """Draw the next groups.

        Raises:
            BackendFailure: The tape holds no more.
        """
        if count > len(self._requests):
            raise BackendFailure(
                f"the framework asked for {count} more groups, and the tape holds "
                f"{len(self._requests)} more"
            )
        drawn, self._requests = self._requests[:count], self._requests[count:]
        return drawn


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a tape holds for a training.

    Attributes:
        config: The configuration with the tape's sizes and the tape as its engine.
        groups: The recorded groups, in the order drawn.
        notes: What of the configuration is changed for the comparison.
    """

    config: RunConfig
    groups: tuple[Group, ...]
    notes: tuple[str, ...]

    @property
    def planned(self) -> RunConfig:
        """The configuration as a training plans it: the engine is the backend's own."""
        rollout = self.config.rollout.model_copy(update={"engine": "transformers"})
        return self.config.model_copy(update={"rollout": rollout})

    def settled(self, settle: Callable[[Sequence[Group]], Sequence[Group]]) -> tuple[Group, ...]:
        """The groups with the rewards that a training normalises batch by batch.

        Args:
            settle: Takes one batch (`RewardBridge.settle` of a new bridge).
        """
        size = self.config.algorithm.hyperparameters.rollout_batch_size
        batches = [self.groups[at : at + size] for at in range(0, len(self.groups), size)]
        return tuple(group for batch in batches for group in settle(batch))

    @property
    def requests(self) -> list[GroupRequest]:
        """What is to be played."""
        return [GroupRequest(group.index, group.task, group.visit) for group in self.groups]


def read_recorded(config: RunConfig, path: Path) -> Recorded:
    """Read a tape and fit a configuration to it.

    Iterations, prompts of an iteration and samples of a prompt become the tape's: the configured
    number of prompts where it divides the tape's groups, else all in one iteration. A failed
    episode is masked, as it was when it was recorded.

    Args:
        config: One stage's configuration.
        path: The tape.

    Raises:
        DataError: The tape cannot be read, is empty, or its groups differ in size.
        ConfigError: The algorithm plays no episodes.
    """
    with Tape(path) as tape:
        found = sorted((recorded.group for recorded in tape.groups()), key=lambda g: g.index)
    sizes = {len(group.trajectories) for group in found}
    if len(sizes) != 1 or 0 in sizes:
        raise DataError(
            f"{path}: holds groups of {sorted(sizes)} episodes; a training needs groups of one "
            "size: record it again with --samples"
        )
    if config.algorithm.name == "sft":
        raise ConfigError("algorithm.name: sft plays no episodes, so there is no tape of them")
    (samples,) = sizes
    fitted, notes = _fit(config, path, groups=len(found), samples=samples)
    return Recorded(fitted, tuple(found), notes)


def _fit(
    config: RunConfig, path: Path, *, groups: int, samples: int
) -> tuple[RunConfig, tuple[str, ...]]:
    hyper = config.algorithm.hyperparameters
    prompts = hyper.rollout_batch_size if groups % hyper.rollout_batch_size == 0 else groups
    rollouts = prompts * samples
    step = hyper.global_batch_size if rollouts % hyper.global_batch_size == 0 else rollouts
    sizes = {
        "num_iterations": groups // prompts,
        "rollout_batch_size": prompts,
        "n_samples_per_prompt": samples,
        "global_batch_size": step,
    }
    notes = [
        f"{key} is {value} (the tape's), not {getattr(hyper, key)}"
        for key, value in sizes.items()
        if key != "num_iterations" and value != getattr(hyper, key)
    ]
    if hyper.importance_correction != "none":
        notes.append(
            "importance_correction is none: its weights need each framework's own forward pass, "
            "and what goes into them is compared"
        )
    collecting = _whole_batches(config)
    if collecting:
        keys = ", ".join(f"rollout.{key}" for key in collecting)
        notes.append(f"{keys}: left out; every recorded group is trained on, in the order drawn")
    unneeded = {"save_interval": None, "eval_interval": None, "warmup_steps": 0}
    changed = hyper.model_copy(update={**sizes, **unneeded, "importance_correction": "none"})
    masked = dict.fromkeys(type(config.rollout.failure).model_fields, "mask")
    rollout = config.rollout.model_copy(
        update={
            "engine": {"name": TAPE_ENGINE, "path": str(path.absolute())},
            "failure": config.rollout.failure.model_copy(update=masked),
            "max_failure_rate": 1.0,
            "owner": "retrain",
            **collecting,
        }
    )
    algorithm = config.algorithm.model_copy(update={"hyperparameters": changed})
    fitted = config.model_copy(
        update={"algorithm": algorithm, "rollout": rollout, "evaluation": None, "stages": ()}
    )
    return fitted, tuple(notes)


def _whole_batches(config: RunConfig) -> dict[str, Any]:
    """The settings that choose among groups or collect ahead, as they are where nothing does.

    A filter has chosen when the tape was recorded, or is yet to choose: no backend has a part in
    it. Collecting ahead needs servers, and there are none.
    """
    fields = type(config.rollout).model_fields
    wanted = {key: fields[key].get_default() for key in _CHOOSING}
    return {key: value for key, value in wanted.items() if getattr(config.rollout, key) != value}
