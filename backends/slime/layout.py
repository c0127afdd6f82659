"""Which GPUs train and which generate."""

from __future__ import annotations

from dataclasses import replace

from backends.base import Problem
from backends.slime.gpus import Cluster, Layout, Wanted
from backends.slime.layout_fitting import fitted_into, layout_warning, whole_engines
from backends.slime.options import PREFIX
from retrain.errors import ConfigError

_GPUS_PER_NODE = 8
"""What slime takes a node to have."""


def choose_layout(wanted: Wanted, cluster: Cluster | None) -> tuple[Layout, list[Problem]]:
    """Lay the run out: as asked for, in what there is.

    Where it asks for more than there is, the engines get fewer GPUs, or stand on the GPUs that
    train; every such change is a warning.

    Args:
        wanted: What the configuration asks for.
        cluster: What Ray reports; None where nobody has asked it.

    Returns:
        The layout, and what was changed.

    Raises:
        ConfigError: With the arithmetic, where nothing fits.
    """
    _require_consistent(wanted)
    if cluster is not None and not cluster.gpus:
        raise ConfigError(
            "cluster: Ray reports no GPU on any node; start its nodes with --num-gpus, or use "
            "slime_laptop to debug without one"
        )
    if wanted.nodes is None and wanted.per_node is None:
        layout, found = _filling(wanted, cluster)
    else:
        layout, found = _asked(wanted, cluster), []
    layout, changed = whole_engines(layout)
    if cluster is None:
        return layout, [*found, *changed]
    layout, fitted = fitted_into(layout, cluster, asynchronous=wanted.asynchronous)
    return layout, [*found, *changed, *fitted]


def _require_consistent(wanted: Wanted) -> None:
    if wanted.asynchronous and wanted.colocate:
        raise ConfigError(
            f"{PREFIX}colocate: the asynchronous loop trains and generates at the same time, "
            "which one GPU cannot; remove it, or slime_train_async"
        )
    if wanted.generates and wanted.rollout == 0:
        raise ConfigError(
            f"{PREFIX}rollout_num_gpus: 0 leaves nobody to generate; use at least "
            f"{wanted.per_engine}, or slime_rollout_external_engine_addrs"
        )


def _filling(wanted: Wanted, cluster: Cluster | None) -> tuple[Layout, list[Problem]]:
    """A layout for a configuration that does not say what trains: all there is."""
    if cluster is None:
        layout = _asked(replace(wanted, nodes=1, per_node=wanted.per_engine), None)
        apart = f", and {layout.rollout} more that generate" if not layout.colocate else ""
        shares = " and generates" if layout.colocate else ""
        text = (
            f"is not set, and Ray was not asked: planned for 1 node x {layout.train} GPU that "
            f"trains{shares}{apart if layout.rollout else ''}; when training starts, the GPUs that "
            "Ray reports are used"
        )
        return layout, [layout_warning("actor_num_gpus_per_node", text)]
    smallest = min(cluster.gpus_per_node)
    nodes = len(cluster.gpus_per_node)
    if not wanted.apart:
        text = f"is not set: {nodes} nodes x {smallest} GPUs, as Ray reports"
        filled = _asked(replace(wanted, nodes=nodes, per_node=smallest), cluster)
        return filled, [layout_warning("actor_num_gpus_per_node", text)]
    if cluster.gpus == 1 and not wanted.asynchronous:
        text = "1 GPU trains + 1 generates = 2 > 1 that Ray reports; colocated instead"
        alone = replace(wanted, nodes=1, per_node=1, rollout=None, colocate=True)
        return _asked(alone, cluster), [layout_warning("colocate", text)]
    return _halves(wanted, cluster, nodes, smallest)


def _halves(
    wanted: Wanted, cluster: Cluster, nodes: int, smallest: int
) -> tuple[Layout, list[Problem]]:
    """Half of what there is trains, unless the configuration says how much generates."""
    even = nodes * smallest
    rollout = wanted.rollout or max(even // 2 // wanted.per_engine, 1) * wanted.per_engine
    train = even - rollout
    if train < 1:
        raise ConfigError(
            f"{PREFIX}rollout_num_gpus: {rollout} GPUs generate, of {even} that Ray reports: "
            f"{even} - {rollout} = {train} are left to train"
        )
    trained = (train // smallest, smallest) if train >= smallest else (1, train)
    text = (
        f"is not set: {trained[0]} nodes x {trained[1]} GPUs train and {rollout} generate, of "
        f"{cluster.gpus} that Ray reports"
    )
    layout = _asked(
        replace(wanted, nodes=trained[0], per_node=trained[1], rollout=rollout), cluster
    )
    return layout, [layout_warning("actor_num_gpus_per_node", text)]


def _asked(wanted: Wanted, cluster: Cluster | None) -> Layout:
    """What a configuration asks for, completed."""
    nodes = wanted.nodes or 1
    per_node = wanted.per_node or (min(cluster.gpus_per_node) if cluster else _GPUS_PER_NODE)
    train = nodes * per_node
    colocate = wanted.generates and not wanted.apart
    rollout = 0
    if wanted.generates:
        rollout = wanted.rollout or (train if colocate else wanted.per_engine)
    return Layout(
        nodes=nodes,
        per_node=per_node,
        rollout=rollout,
        per_engine=wanted.per_engine,
        node_gpus=wanted.node_gpus or _node_gpus(nodes, per_node, rollout, colocate, cluster),
        colocate=colocate,
    )


def _node_gpus(
    nodes: int, per_node: int, rollout: int, colocate: bool, cluster: Cluster | None
) -> int:
    if cluster is not None:
        return max(cluster.gpus_per_node)
    if colocate or not rollout or nodes > 1:
        return per_node
    return min(max(per_node + rollout, per_node), _GPUS_PER_NODE)
