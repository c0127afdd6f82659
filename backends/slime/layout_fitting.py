"""Fits a layout into the GPUs that there are; every change is a warning."""

from __future__ import annotations

from dataclasses import replace

from backends.base import Problem, Severity
from backends.slime.gpus import Cluster, Layout
from backends.slime.options import PREFIX
from retrain.errors import ConfigError


def whole_engines(layout: Layout) -> tuple[Layout, list[Problem]]:
    """Engines whole: the GPUs that are left over generate nothing.

    Returns:
        The layout, and what was changed.

    Raises:
        ConfigError: No engine fits.
    """
    if not layout.rollout:
        return layout, []
    if layout.rollout < layout.per_engine:
        raise ConfigError(
            f"{PREFIX}rollout_num_gpus_per_engine: an engine of {layout.per_engine} GPUs does not "
            f"fit into the {layout.rollout} that generate; lower it, or give more GPUs"
        )
    rest = layout.rollout % layout.per_engine
    if not rest:
        return layout, []
    whole = layout.rollout - rest
    text = (
        f"{layout.rollout} GPUs do not make whole engines of {layout.per_engine}: {whole} "
        f"generate ({whole // layout.per_engine} engines), {rest} do not"
    )
    return replace(layout, rollout=whole), [layout_warning("rollout_num_gpus", text)]


def fitted_into(
    layout: Layout, cluster: Cluster, *, asynchronous: bool
) -> tuple[Layout, list[Problem]]:
    """The layout in what there is.

    Args:
        layout: What is asked for.
        cluster: What Ray reports.
        asynchronous: Whether the next rollout is generated while this one is trained on.

    Returns:
        The layout, and what was changed.

    Raises:
        ConfigError: With the arithmetic, where nothing fits.
    """
    _require_training_fits(layout, cluster)
    if layout.gpus <= cluster.gpus:
        return layout, []
    needed = f"{layout.train} GPUs train + {layout.rollout} generate = {layout.gpus}"
    there = f"{cluster.gpus} that Ray reports"
    left = (cluster.gpus - layout.train) // layout.per_engine * layout.per_engine
    if not layout.colocate and left:
        fewer = replace(layout, rollout=left)
        text = (
            f"{needed} > {there}: {fewer.engines} engines on {left} GPUs instead of "
            f"{layout.engines} on {layout.rollout}"
        )
        return fewer, [layout_warning("rollout_num_gpus", text)]
    together = layout.train // layout.per_engine * layout.per_engine
    if asynchronous or not together:
        why = "the asynchronous loop cannot colocate" if asynchronous else "and none is left"
        raise ConfigError(
            f"{PREFIX}rollout_num_gpus: {needed} > {there}; {why}: lower "
            "slime_actor_num_gpus_per_node or slime_rollout_num_gpus"
        )
    text = f"{needed} > {there}: the engines stand on the {layout.train} GPUs that train instead"
    return replace(layout, colocate=True, rollout=together), [layout_warning("colocate", text)]


def _require_training_fits(layout: Layout, cluster: Cluster) -> None:
    roomy = [gpus for gpus in cluster.gpus_per_node if gpus >= layout.per_node]
    if len(roomy) >= layout.nodes:
        return
    nodes = " + ".join(map(str, cluster.gpus_per_node))
    raise ConfigError(
        f"{PREFIX}actor_num_gpus_per_node: {layout.nodes} nodes x {layout.per_node} GPUs = "
        f"{layout.train} are to train, and Ray reports nodes with {nodes} GPUs; lower "
        "slime_actor_num_nodes or slime_actor_num_gpus_per_node"
    )


def layout_warning(option: str, text: str) -> Problem:
    """What was done in place of what an option asks for."""
    return Problem(f"{PREFIX}{option}", text, Severity.WARNING)
