"""slime's own loops on the CPU in the other ways of running: who collects, and which loop."""

from __future__ import annotations

from pathlib import Path

import pytest
from laptop_world import MARKS, Loop, laptop_config, train

from backends.slime.live_episodes import BEGUN_AGAIN

pytestmark = MARKS

pytest.importorskip("ray", reason="needs ray: pip install 'retrain[slime]'")
pytest.importorskip("wandb", reason="needs what slime imports: its requirements.txt")

HELD_OUT = {"type": "list", "source_config": {"items": ["held out 0", "held out 1"]}}


@pytest.fixture(scope="module")
def owned_by_slime(tmp_path_factory: pytest.TempPathFactory, demo_model: Path) -> Loop:
    return train(
        laptop_config(
            tmp_path_factory.mktemp("owned") / "run",
            demo_model,
            {"num_iterations": 2, "eval_interval": 1},
            rollout={"owner": "slime"},
            evaluation={"prompt_source": HELD_OUT, "n_samples_per_prompt": 2},
        )
    )


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory: pytest.TempPathFactory, demo_model: Path) -> Loop:
    run = tmp_path_factory.mktemp("asynchronous") / "run"
    return train(laptop_config(run, demo_model, {"slime_train_async": True}))


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory, demo_model: Path) -> Loop:
    """Twice as many groups as a batch needs are begun; slime aborts the rest.

    Groups have four episodes each; six are played at a time, so some always play when it does.
    """
    options = {"slime_partial_rollout": True, "slime_over_sampling_batch_size": 8}
    return train(
        laptop_config(
            tmp_path_factory.mktemp("partial") / "run",
            demo_model,
            {**options, "num_iterations": 3},
            rollout={"owner": "slime", "concurrency": 6},
        )
    )


def groups_of(loop: Loop, iteration: int) -> dict[int, list[str]]:
    """The tasks of each group of an iteration."""
    groups: dict[int, list[str]] = {}
    for row in loop.samples(iteration):
        groups.setdefault(row["group_index"], []).append(row["task_id"])
    return groups


def trained(loop: Loop) -> list[int]:
    return [row["iteration"] for row in loop.rows if "train/loss" in row]


def test_slimes_own_manager_collects_whole_groups_through_our_functions(
    owned_by_slime: Loop,
) -> None:
    for iteration in (1, 2):
        groups = groups_of(owned_by_slime, iteration)
        assert len(groups) == 4
        assert all(len(tasks) == 4 and len({*tasks}) == 1 for tasks in groups.values())
    assert trained(owned_by_slime) == [1, 2]
    assert owned_by_slime.left == []


def test_what_slimes_manager_collects_is_trained_on_exactly(owned_by_slime: Loop) -> None:
    rows = owned_by_slime.rows
    found = [row["train/logprob_abs_diff"] for row in rows if "train/logprob_abs_diff" in row]
    assert len(found) == 2
    assert max(found) < 0.02, "bfloat16 against float32; wrong tokens give whole units"


def test_an_evaluation_is_held_before_training_and_after_every_iteration(
    owned_by_slime: Loop,
) -> None:
    held = {row["iteration"]: row for row in owned_by_slime.rows if "eval/reward/mean" in row}
    assert sorted(held) == [0, 1, 2]
    assert all(row["eval/rollout/episodes"] == 4 for row in held.values())
    folder = owned_by_slime.result.run_dir / "samples"
    assert all((folder / f"eval-{iteration}.jsonl").exists() for iteration in (0, 1, 2))


def test_the_asynchronous_loop_trains_every_rollout_once(asynchronous: Loop) -> None:
    assert trained(asynchronous) == [1, 2, 3]
    indices = [sorted(groups_of(asynchronous, iteration)) for iteration in (1, 2, 3)]
    assert indices == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert asynchronous.result.iterations == 3
    assert asynchronous.left == []


def test_the_asynchronous_loop_is_one_update_behind(asynchronous: Loop) -> None:
    """train_async.py generates rollout N + 1 while rollout N is trained on."""
    versions = [
        {version for row in asynchronous.samples(n) for version in row["weight_versions"]}
        for n in (1, 2, 3)
    ]
    assert versions == [{"1"}, {"1"}, {"2"}]


def test_episodes_that_slime_aborts_go_on_under_the_new_weights(partial: Loop) -> None:
    assert trained(partial) == [1, 2, 3]
    went_on, begun_again = 0, set()
    for iteration in (1, 2, 3):
        groups = groups_of(partial, iteration)
        assert len(groups) == 4
        assert all(len(tasks) == 4 and len({*tasks}) == 1 for tasks in groups.values())
        for row in partial.samples(iteration):
            assert row["status"] in ("completed", "truncated")
            versions = [int(version) for version in row["weight_versions"]]
            assert versions == sorted(versions)
            went_on += len({*versions}) > 1
            if BEGUN_AGAIN in row["metadata"]:
                begun_again.add(row["group_index"])
    assert went_on > 0, "some were written by several weights"
    thrown_away = sum(row.get("rollout/restarted", 0) for row in partial.rows)
    assert len(begun_again) <= thrown_away, "where slime kept a group, its live episodes were there"
    assert partial.left == []
