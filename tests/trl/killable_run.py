"""A run that a test kills: `python killable_run.py CONFIG [--resume]`."""

import sys

from retrain.config import load_config
from retrain.training import train

if __name__ == "__main__":
    train(load_config(sys.argv[1]), resume="--resume" in sys.argv)
