"""GPUs: what there is, what a configuration asks for, and what is sent to slime."""

from __future__ import annotations

from dataclasses import dataclass


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
