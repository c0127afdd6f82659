"""Which GPUs train and which generate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backends.base import Problem, Severity
from retrain.errors import ConfigError

_PREFIX = "algorithm.hyperparameters.slime_"
_GPUS_PER_NODE = 8
"""What slime takes a node to have."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is.

    Attributes:
        gpus_per_node: GPUs of each node that has any, as Ray reports them.
    """

    gpus_per_node: tuple[int, ...]

    @property
    def gpus(self) -> int:
        """All of them."""
        return sum(self.gpus_per_node)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a configuration asks for; None where it leaves the choice.

    Attributes:
        nodes: Nodes that train.
        per_node: GPUs of each that train.
        rollout: GPUs that generate.
        per_engine: GPUs of one engine.
        node_gpus: GPUs of a node, for placing the engines.
        colocate: Whether the engines stand on the GPUs that train.
        generates: False where nothing is generated here: sft, or engines that run elsewhere.
        asynchronous: Whether the next rollout is generated while this one is trained on.
    """

    nodes: int | None = None
    per_node: int | None = None
    rollout: int | None = None
    per_engine: int = 1
    node_gpus: int | None = None
    colocate: bool | None = None
    generates: bool = True
    asynchronous: bool = False

    @property
    def apart(self) -> bool:
        """Whether engines get GPUs of their own."""
        if not self.generates:
            return False
        if self.colocate is not None:
            return not self.colocate
        return self.asynchronous or self.rollout is not None


@dataclass(frozen=True, slots=True)
class Layout:
    """What is sent to slime.

    Attributes:
        nodes: Nodes that train.
        per_node: GPUs of each that train.
        rollout: GPUs that generate; the same GPUs again where colocated.
        per_engine: GPUs of one engine.
        node_gpus: GPUs of a node.
        colocate: Whether the engines stand on the GPUs that train.
    """

    nodes: int
    per_node: int
    rollout: int
    per_engine: int
    node_gpus: int
    colocate: bool

    @property
    def train(self) -> int:
        """GPUs that train."""
        return self.nodes * self.per_node

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return max(self.train, self.rollout) if self.colocate else self.train + self.rollout

    @property
    def engines(self) -> int:
        """Engines that generate."""
        return self.rollout // self.per_engine


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
    layout, changed = _whole_engines(layout)
    if cluster is None:
        return layout, [*found, *changed]
    layout, fitted = _fitting(layout, cluster, asynchronous=wanted.asynchronous)
    return layout, [*found, *changed, *fitted]


def _require_consistent(wanted: Wanted) -> None:
    if wanted.asynchronous and wanted.colocate:
        raise ConfigError(
            f"{_PREFIX}colocate: the asynchronous loop trains and generates at the same time, "
            "which one GPU cannot; remove it, or slime_train_async"
        )
    if wanted.generates and wanted.rollout == 0:
        raise ConfigError(
            f"{_PREFIX}rollout_num_gpus: 0 leaves nobody to generate; use at least "
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
        return layout, [_warning("actor_num_gpus_per_node", text)]
    smallest = min(cluster.gpus_per_node)
    nodes = len(cluster.gpus_per_node)
    if not wanted.apart:
        text = f"is not set: {nodes} nodes x {smallest} GPUs, as Ray reports"
        filled = _asked(replace(wanted, nodes=nodes, per_node=smallest), cluster)
        return filled, [_warning("actor_num_gpus_per_node", text)]
    if cluster.gpus == 1 and not wanted.asynchronous:
        text = "1 GPU trains + 1 generates = 2 > 1 that Ray reports; colocated instead"
        alone = replace(wanted, nodes=1, per_node=1, rollout=None, colocate=True)
        return _asked(alone, cluster), [_warning("colocate", text)]
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
            f"{_PREFIX}rollout_num_gpus: {rollout} GPUs generate, of {even} that Ray reports: "
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
    return layout, [_warning("actor_num_gpus_per_node", text)]


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


def _whole_engines(layout: Layout) -> tuple[Layout, list[Problem]]:
    """Engines whole: the GPUs that are left over generate nothing."""
    if not layout.rollout:
        return layout, []
    if layout.rollout < layout.per_engine:
        raise ConfigError(
            f"{_PREFIX}rollout_num_gpus_per_engine: an engine of {layout.per_engine} GPUs does not "
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
    return replace(layout, rollout=whole), [_warning("rollout_num_gpus", text)]


def _fitting(
    layout: Layout, cluster: Cluster, *, asynchronous: bool
) -> tuple[Layout, list[Problem]]:
    """The layout in what there is."""
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
        return fewer, [_warning("rollout_num_gpus", text)]
    together = layout.train // layout.per_engine * layout.per_engine
    if asynchronous or not together:
        why = "the asynchronous loop cannot colocate" if asynchronous else "and none is left"
        raise ConfigError(
            f"{_PREFIX}rollout_num_gpus: {needed} > {there}; {why}: lower "
            "slime_actor_num_gpus_per_node or slime_rollout_num_gpus"
        )
    text = f"{needed} > {there}: the engines stand on the {layout.train} GPUs that train instead"
    return replace(layout, colocate=True, rollout=together), [_warning("colocate", text)]


def _require_training_fits(layout: Layout, cluster: Cluster) -> None:
    roomy = [gpus for gpus in cluster.gpus_per_node if gpus >= layout.per_node]
    if len(roomy) >= layout.nodes:
        return
    nodes = " + ".join(map(str, cluster.gpus_per_node))
    raise ConfigError(
        f"{_PREFIX}actor_num_gpus_per_node: {layout.nodes} nodes x {layout.per_node} GPUs = "
        f"{layout.train} are to train, and Ray reports nodes with {nodes} GPUs; lower "
        "slime_actor_num_nodes or slime_actor_num_gpus_per_node"
    )


def _warning(option: str, text: str) -> Problem:
    return Problem(f"{_PREFIX}{option}", text, Severity.WARNING)
