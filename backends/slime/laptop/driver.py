"""Run slime's training script inside a Ray of its own.

`python -m backends.slime.laptop.driver SCRIPT ARGUMENTS…`, in the environment of `environment.py`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

CPUS = 8
"""What Ray is told; slime's actors reserve some six of them and use what there is."""

OBJECT_STORE = 256 * 2**20
"""Bytes of shared memory for what the actors pass to one another."""


def main(argv: list[str]) -> None:
    """Start Ray, run the script as `__main__`, and end Ray with it.

    `placement_group.py` of slime wants a GPU for training: Ray is told that there is one.

    Args:
        argv: The script and its arguments.
    """
    import ray

    ray.init(
        address="local",
        num_cpus=CPUS,
        num_gpus=1,
        include_dashboard=False,
        object_store_memory=OBJECT_STORE,
    )
    sys.argv = argv
    sys.path.insert(0, str(Path(argv[0]).parent))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
