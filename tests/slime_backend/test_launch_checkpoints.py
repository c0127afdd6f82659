from __future__ import annotations

from pathlib import Path

import pytest

from backends.slime.checkpoints import data_path, go_back, newest_checkpoint, unconverted
from retrain.errors import DataError
from retrain.rollout.state_file import State, write_state


def save(run: Path, rollout: int, *, model: bool = True, data: bool = True) -> None:
    """Leave what slime leaves of a checkpoint, in its order."""
    weights = run / "checkpoints" / "slime"
    (weights / f"iter_{rollout:07d}").mkdir(parents=True)
    (weights / f"iter_{rollout:07d}" / "common.pt").write_bytes(b"weights")
    (weights / "latest_checkpointed_iteration.txt").write_text(str(rollout))
    if model:
        folder = run / "checkpoints" / "hf" / str(rollout)
        folder.mkdir(parents=True)
        (folder / "model.safetensors.index.json").write_text("{}")
    if data:
        write_state(data_path(run, rollout), "slime data state", State({"rollout": rollout}))


def newest(run: Path) -> int | None:
    checkpoint = newest_checkpoint(run)
    return None if checkpoint is None else checkpoint.rollout


def test_the_first_rollout_can_be_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 0)
    checkpoint = newest_checkpoint(tmp_path)
    assert checkpoint is not None
    assert (checkpoint.rollout, checkpoint.iteration) == (0, 1)
    assert checkpoint.model == tmp_path / "checkpoints" / "hf" / "0"


def test_without_one_there_is_none(tmp_path: Path) -> None:
    assert newest(tmp_path) is None
    assert unconverted(tmp_path) is None


@pytest.mark.parametrize("missing", ["model", "data"])
def test_a_checkpoint_that_lacks_a_part_is_passed_over(tmp_path: Path, missing: str) -> None:
    save(tmp_path, 1)
    save(tmp_path, 3, **{missing: False})
    assert newest(tmp_path) == 1


def test_weights_that_megatron_was_still_writing_are_passed_over(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 3)
    tracker = tmp_path / "checkpoints" / "slime" / "latest_checkpointed_iteration.txt"
    tracker.write_text("1")
    assert newest(tmp_path) == 1


def test_a_torn_file_of_data_is_named(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 3)
    (tmp_path / "state" / "data-3.json").write_text('{"rollo')
    with pytest.raises(DataError, match=r"data-3\.json: is cut short or damaged .*; remove it to"):
        newest(tmp_path)
    (tmp_path / "state" / "data-3.json").unlink()
    assert newest(tmp_path) == 1


def test_going_back_moves_later_parts_aside_and_names_the_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 3, data=False)
    (tmp_path / "state" / "data-2.json").write_text("{}")
    aside = go_back(tmp_path, newest_checkpoint(tmp_path))
    assert aside == tmp_path / "superseded" / "checkpoints-001"
    moved = {str(path.relative_to(aside)) for path in aside.rglob("*") if path.is_file()}
    assert moved == {
        "checkpoints/slime/iter_0000003/common.pt",
        "checkpoints/hf/3/model.safetensors.index.json",
        "state/data-2.json",
    }
    slime = tmp_path / "checkpoints" / "slime"
    assert (slime / "latest_checkpointed_iteration.txt").read_text() == "1"
    assert newest(tmp_path) == 1
    assert go_back(tmp_path, newest_checkpoint(tmp_path)) is None


def test_going_back_to_the_beginning_leaves_nothing_that_slime_would_load(tmp_path: Path) -> None:
    save(tmp_path, 0, data=False)
    go_back(tmp_path, None)
    assert list((tmp_path / "checkpoints" / "slime").iterdir()) == []
    assert not (tmp_path / "checkpoints" / "hf" / "0").exists()
