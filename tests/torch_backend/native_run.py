"""A run that a test kills: `python native_run.py CONFIG [--resume]`."""

import sys

from backends.torch.backend import TorchBackend
from retrain.config import load_config


def main() -> None:
    backend = TorchBackend()
    plan = backend.plan(load_config(sys.argv[1]))
    backend.train(plan, resume="--resume" in sys.argv)


if __name__ == "__main__":
    main()
