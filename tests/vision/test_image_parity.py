"""One tape of episodes with images through both backends' conversions: the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from seeing import items_of, see_config

from retrain.cli.rollout_playing import play_configured
from retrain.compose import compose, make_buffer, make_tasks
from retrain.parity import Recorded, digest, read_recorded
from retrain.rollout.tape.reading import Tape

pytestmark = pytest.mark.slow


@pytest.fixture
def recorded(vlm: Path, pictures: tuple[str, str], tmp_path: Path) -> Recorded:
    """Three groups of the model itself: images in the prompt, behind it, and none."""
    by_hand = {
        "slime_spec": ["slime_plugins.models.qwen3_5_vl", "provider"],
        "slime_num_layers": 2,
        "slime_hidden_size": 32,
        "slime_ffn_hidden_size": 48,
        "slime_num_attention_heads": 4,
        "slime_normalization": "RMSNorm",
        "slime_position_embedding_type": "rope",
        "slime_vocab_size": 265,
        "slime_ref_load": str(vlm),
    }
    hyper: dict[str, Any] = {"rollout_batch_size": 3, **by_hand}
    config = see_config(vlm, tmp_path / "run", items_of(*pictures), hyper=hyper)
    requests = make_buffer(config, make_tasks(config)).draw(3)
    tape = tmp_path / "a.tape"
    play_configured(compose(config), "transformers", requests, 2, tape=tape)
    return read_recorded(config, tape)


def test_a_tape_names_its_images_and_plays_to_the_same_rows(
    recorded: Recorded, pictures: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backends.slime.parity import read_loss
    from backends.trl.backend import TRLBackend

    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    with Tape(tmp_path / "a.tape") as tape:
        groups = list(tape.groups())
    shown = {g.group.task.id: g.group.trajectories[0].segments[0].images for g in groups}
    noisy, red = pictures
    assert shown == {"two": (noisy, red, red), "later": (noisy,), "text": ()}
    assert (tmp_path / "a.tape").stat().st_size < 50_000
    ours = TRLBackend().read_loss(recorded)
    theirs = read_loss(recorded)
    assert len(ours.rows) == len(theirs.rows) == 6
    assert digest(ours.rows) == digest(theirs.rows)
