"""What each backend makes of a recording, and what the recording itself gives."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from slime_source import named_slime

from retrain.compose import compose, make_buffer, make_tasks
from retrain.config import RunConfig
from retrain.parity import LossReading, LossRow, Recorded
from retrain.parity.report import expected_rows
from retrain.types import Group


def record(config: RunConfig, path: Path) -> Path:
    """Record four groups of four episodes of the model itself."""
    from retrain.cli.rollout_playing import play_configured

    requests = make_buffer(config, make_tasks(config)).draw(4)
    play_configured(compose(config), "transformers", requests, 4, tape=path)
    return path


def rows_of(data_format: Any, groups: Iterable[Group]) -> tuple[LossRow, ...]:
    """The rows that recorded groups give."""
    return expected_rows(slot for group in groups for slot in data_format.group_samples(group))


def text(ids: Any) -> str:
    """Ids as a text that tells them apart."""
    return " ".join(map(str, ids))


def slime_reading(recorded: Recorded) -> LossReading:
    """What slime's conversion and schedule give."""
    from backends.slime.parity import read_loss

    return read_loss(recorded)


def real_slime_reading(recorded: Recorded) -> LossReading:
    """The same by slime's own code; skips the test where that cannot run."""
    named_slime()
    reading = slime_reading(recorded)
    if reading.source.startswith("port"):
        pytest.skip(reading.notes[0])
    return reading


def trl_reading(recorded: Recorded) -> LossReading:
    """What enters the loss of a real `GRPOTrainer`."""
    pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
    from backends.trl.backend import TRLBackend

    return TRLBackend().read_loss(recorded)


def torch_reading(recorded: Recorded) -> LossReading:
    """What enters the loss of the native loop."""
    from backends.torch.backend import TorchBackend

    return TorchBackend().read_loss(recorded)


def shift_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TRL train on one token too early."""
    pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
    from backends.trl import feed

    right = feed.as_columns

    def shifted(rows: Any) -> Any:
        columns = right(rows)
        columns["env_mask"] = [[0, *mask[:-1]] for mask in columns["env_mask"]]
        return columns

    monkeypatch.setattr(feed, "as_columns", shifted)
