"""What the native loop measures of a batch that several weights wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from backends.local.written_by import current_masks, oldest_step
from backends.torch.compute.passes import PassSettings, forward_backward, score_rows
from backends.torch.objective import CURRENT_GAP, CURRENT_SHARE, PolicyObjective
from backends.torch.processes.ranks import Ranks
from backends.torch.rows import TrainingBatch
from backends.torch.run.noting import NotingObjective
from backends.torch.watching import mean_metrics
from retrain.config import ModelConfig
from retrain.engine.transformers_loading import load_model
from retrain.report.trainer_logprobs import read_trainer_logprobs
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, Group, Segment, StopReason, Task, Trajectory, Turn


@pytest.fixture
def model(model_dir: Path) -> Any:
    torch.set_num_threads(1)
    return load_model(ModelConfig(name_or_path=str(model_dir)))


def group_of(*episodes: tuple[Turn, ...]) -> Group:
    """A group of one segment each."""
    task = Task("t", "q")
    return Group(
        index=0,
        task=task,
        visit=0,
        trajectories=tuple(
            Trajectory(
                task,
                EpisodeSeed(0, "train", "t", 0, place),
                (Segment((1,), turns),),
                Status.COMPLETED,
                StopReason.TERMINATED,
                index=place,
            )
            for place, turns in enumerate(episodes)
        ),
    )


def turn(tokens: int, reply: int, version: str, spans: tuple[tuple[int, str], ...] = ()) -> Turn:
    return Turn(
        output_ids=(5,) * tokens,
        output_logprobs=(-1.0,) * tokens,
        finish_reason=FinishReason.STOP,
        action=Action("a"),
        weight_version=version,
        env_ids=(6,) * reply,
        weight_spans=spans,
    )


def test_tokens_of_the_present_weights_are_told_from_older_ones() -> None:
    old, new = "2-ab", "4-ab"
    both = turn(3, 2, new, spans=((1, old), (2, new)))
    batch = [group_of((turn(2, 1, old), both), (turn(1, 0, new),))]
    masks = current_masks(batch, new)
    assert masks == {(0, 0): (0, 0, 0, 0, 1, 1, 0, 0), (1, 0): (1,)}
    assert oldest_step(batch) == 2
    assert current_masks([group_of((turn(2, 1, new),))], new) == {}
    assert oldest_step([]) is None


def test_the_gap_of_the_present_weights_is_over_their_tokens(model: Any, samples: Any) -> None:
    batch = TrainingBatch.of(samples()).weighted("token")
    plain = forward_backward(model, batch.rows, PolicyObjective(), PassSettings(), Ranks())
    assert CURRENT_GAP not in mean_metrics([plain])
    masks = {(row.index, 0): row.mask for row in batch.rows[:2]}
    marked = batch.with_current(masks)
    how = PassSettings(micro_batch_tokens=30)
    found = forward_backward(model, marked.rows, PolicyObjective(), how, Ranks())
    assert found["train/logprob_abs_diff"] == pytest.approx(plain["train/logprob_abs_diff"])
    scored = score_rows(model, batch.rows[:2], PassSettings())
    gaps = [
        abs(new - old)
        for row, news in zip(batch.rows, scored, strict=False)
        for new, old, flag in zip(news, row.old, row.mask, strict=True)
        if flag
    ]
    later = {**found, CURRENT_GAP: 7.0, CURRENT_SHARE: 1.0}
    metrics = mean_metrics([found, later])
    assert metrics[CURRENT_GAP] == pytest.approx(sum(gaps) / len(gaps), rel=1e-4)
    assert CURRENT_SHARE not in metrics
    none = forward_backward(
        model, batch.with_current({(9, 9): (1,)}).rows, PolicyObjective(), how, Ranks()
    )
    assert CURRENT_GAP not in mean_metrics([none]), "the present weights wrote nothing of it"


def test_logprobs_are_noted_before_the_first_update_only(
    model: Any, samples: Any, tmp_path: Path
) -> None:
    backend: Any = SimpleNamespace(step=4)
    objective = NotingObjective(PolicyObjective(), backend, tmp_path, steps=2)
    batch = TrainingBatch.of(samples()).weighted("token")
    repeated = replace(batch.rows[0], weight=0.0)
    forward_backward(model, (*batch.rows, repeated), objective, PassSettings(), Ranks())
    backend.step = 5
    forward_backward(model, batch.rows, objective, PassSettings(), Ranks())
    assert [path.name for path in (tmp_path / "trainer_logprobs").iterdir()] == ["3.jsonl"]
    lines = (tmp_path / "trainer_logprobs" / "3.jsonl").read_text().splitlines()
    assert len(lines) == sum(row.trained > 0 for row in batch.rows)
    scored = score_rows(model, batch.rows, PassSettings())
    for row, values in zip(batch.rows, scored, strict=True):
        noted = read_trainer_logprobs(tmp_path, 3, row.index, 0)
        expected = [v if m else None for v, m in zip(values, row.mask, strict=True)]
        if row.trained:
            assert noted is not None
            assert [v is None for v in noted] == [v is None for v in expected]
            assert [v for v in noted if v] == pytest.approx([v for v in expected if v], abs=1e-5)
        else:
            assert noted is None
