"""A Ray cluster of several simulated nodes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

RESOURCE = "worlds"


@contextmanager
def simulated_cluster(nodes: int) -> Iterator[tuple[Any, list[Any]]]:
    """A head without room for actors, and nodes with room for one; this process is connected."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    try:
        added = [
            cluster.add_node(wait=False, num_cpus=1, resources={RESOURCE: 1}) for _ in range(nodes)
        ]
        ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
        cluster.wait_for_nodes()
        yield cluster, added
    finally:
        ray.shutdown()
        cluster.shutdown()
