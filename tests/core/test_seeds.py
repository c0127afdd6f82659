from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from retrain.seeds import EpisodeSeed, derive_seed

SEED = EpisodeSeed(run=1, split="train", task_id="a", visit=0, sample_index=0)
parts = st.lists(st.integers() | st.text(), max_size=4)


@given(parts, parts)
def test_seeds_are_stable_and_distinct(one: list[int | str], other: list[int | str]) -> None:
    seed = derive_seed(*one)
    assert 0 <= seed < 2**63
    assert seed == derive_seed(*one)
    assert (seed == derive_seed(*other)) == (one == other)


def test_seed_values_are_pinned() -> None:
    """A change here changes every run: resumed runs would not draw what they would have."""
    assert derive_seed("a", 1) == 1225621968716036906
    assert SEED.environment == 5788026842646895090
    assert SEED.turn(0) == 2683289043763657490


def test_a_group_shares_its_world_and_nothing_else() -> None:
    sibling = replace(SEED, sample_index=1)
    assert sibling.environment == SEED.environment
    assert sibling.turn(0) != SEED.turn(0)


def test_everything_that_names_an_episode_counts() -> None:
    changes = [
        {"run": 2},
        {"split": "eval"},
        {"task_id": "b"},
        {"visit": 1},
        {"sample_index": 1},
        {"attempt": 1},
    ]
    seeds = {replace(SEED, **change).turn(0) for change in changes} | {SEED.turn(0), SEED.turn(1)}
    assert len(seeds) == len(changes) + 2
