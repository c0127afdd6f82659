from __future__ import annotations

import pytest

from backends.slime.gpus import Cluster, Layout, Wanted
from backends.slime.layout import choose_layout
from retrain.errors import ConfigError


def numbers(layout: Layout) -> tuple[int, int, int, bool]:
    return layout.nodes, layout.per_node, layout.rollout, layout.colocate


def warned(wanted: Wanted, *nodes: int) -> tuple[Layout, str]:
    layout, problems = choose_layout(wanted, Cluster(nodes) if nodes else None)
    assert not any(problem.stops for problem in problems)
    return layout, "\n".join(map(str, problems))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(nodes=1, per_node=8), (1, 8, 8, True)),
        (Wanted(nodes=2, per_node=8, colocate=True), (2, 8, 16, True)),
        (Wanted(nodes=1, per_node=4, rollout=4), (1, 4, 4, False)),
        (Wanted(nodes=2, per_node=4, rollout=8, colocate=False), (2, 4, 8, False)),
        (Wanted(nodes=1, per_node=4, colocate=False, per_engine=2), (1, 4, 2, False)),
        (Wanted(nodes=1, per_node=4, asynchronous=True, rollout=2), (1, 4, 2, False)),
        (Wanted(nodes=1, per_node=4, generates=False), (1, 4, 0, False)),
        (Wanted(nodes=2), (2, 8, 16, True)),
    ],
)
def test_what_is_asked_for_is_planned_in_silence(
    wanted: Wanted, expected: tuple[int, int, int, bool]
) -> None:
    layout, said = warned(wanted)
    assert numbers(layout) == expected
    assert said == ""


def test_an_open_layout_without_a_cluster_is_one_gpu_and_says_so() -> None:
    layout, said = warned(Wanted())
    assert numbers(layout) == (1, 1, 1, True)
    assert "1 node x 1 GPU that trains and generates" in said and "GPUs that Ray reports" in said
    assert "and 1 more that generate" in warned(Wanted(asynchronous=True))[1]


def test_an_open_layout_takes_what_ray_reports_and_says_so() -> None:
    layout, said = warned(Wanted(), 8, 8)
    assert numbers(layout) == (2, 8, 16, True)
    assert "2 nodes x 8 GPUs, as Ray reports" in said


def test_an_open_asynchronous_layout_halves_what_there_is() -> None:
    layout, said = warned(Wanted(asynchronous=True, per_engine=2), 8)
    assert numbers(layout) == (1, 4, 4, False)
    assert "1 nodes x 4 GPUs train and 4 generate, of 8" in said
    assert numbers(warned(Wanted(rollout=8), 8, 8)[0]) == (1, 8, 8, False)


def test_one_gpu_is_shared_aloud_where_two_were_wanted() -> None:
    layout, said = warned(Wanted(colocate=False), 1)
    assert numbers(layout) == (1, 1, 1, True)
    assert "1 GPU trains + 1 generates = 2 > 1" in said and "colocated instead" in said


def test_fewer_engines_are_chosen_aloud() -> None:
    layout, said = warned(Wanted(nodes=1, per_node=4, rollout=8, per_engine=2), 8)
    assert (layout.rollout, layout.engines, layout.colocate) == (4, 2, False)
    assert "4 GPUs train + 8 generate = 12 > 8" in said
    assert "2 engines on 4 GPUs instead of 4 on 8" in said


def test_colocation_is_chosen_aloud_where_no_engine_fits_beside() -> None:
    layout, said = warned(Wanted(nodes=1, per_node=8, rollout=8), 8)
    assert numbers(layout) == (1, 8, 8, True)
    assert "8 GPUs train + 8 generate = 16 > 8" in said
    assert "stand on the 8 GPUs that train instead" in said


def test_gpus_that_make_no_whole_engine_are_left_out_aloud() -> None:
    layout, said = warned(Wanted(nodes=1, per_node=2, rollout=6, per_engine=4))
    assert (layout.rollout, layout.engines) == (4, 1)
    assert "6 GPUs do not make whole engines of 4: 4 generate (1 engines), 2 do not" in said


@pytest.mark.parametrize(
    ("wanted", "nodes", "reason"),
    [
        (Wanted(nodes=2, per_node=8), (8,), r"2 nodes x 8 GPUs = 16 .* nodes with 8 GPUs"),
        (Wanted(nodes=1, per_node=8), (4, 4), r"1 nodes x 8 GPUs = 8 .* with 4 \+ 4 GPUs"),
        (Wanted(nodes=1, per_node=2, per_engine=4), (), "engine of 4 GPUs does not fit into the 2"),
        (
            Wanted(nodes=1, per_node=8, rollout=8, asynchronous=True),
            (8,),
            r"8 GPUs train \+ 8 generate = 16 > 8 .* the asynchronous loop cannot colocate",
        ),
        (
            Wanted(nodes=1, per_node=2, rollout=4, per_engine=4),
            (4,),
            r"2 GPUs train \+ 4 generate = 6 > 4 .* and none is left",
        ),
        (Wanted(asynchronous=True), (1,), r"1 GPUs generate, of 1 .* 1 - 1 = 0 are left"),
        (Wanted(rollout=4), (4,), r"4 GPUs generate, of 4 .* 4 - 4 = 0 are left to train"),
        (Wanted(asynchronous=True, colocate=True), (), "one GPU cannot; remove it"),
        (Wanted(rollout=0), (), "0 leaves nobody to generate"),
        (Wanted(), (0,), "Ray reports no GPU on any node"),
    ],
)
def test_what_cannot_be_is_refused_with_the_arithmetic(
    wanted: Wanted, nodes: tuple[int, ...], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        choose_layout(wanted, Cluster(nodes) if nodes else None)


@pytest.mark.parametrize(
    ("wanted", "nodes", "gpus"),
    [
        (Wanted(nodes=1, per_node=2), (), 2),
        (Wanted(nodes=1, per_node=2, rollout=2), (), 4),
        (Wanted(nodes=1, per_node=8, rollout=8), (), 8),
        (Wanted(nodes=1, per_node=2), (4,), 4),
        (Wanted(nodes=1, per_node=2, node_gpus=6), (4,), 6),
    ],
)
def test_the_engines_are_placed_by_the_size_of_a_node(
    wanted: Wanted, nodes: tuple[int, ...], gpus: int
) -> None:
    assert warned(wanted, *nodes)[0].node_gpus == gpus
