"""A run that a test kills: `python killable_run.py CONFIG [--resume] [--gloo] [--pids FOLDER]`."""

import argparse
import os
from pathlib import Path

import pytest

from retrain.config import load_config
from retrain.launch import Launch
from retrain.training import train


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--gloo", action="store_true", help="how a vLLM server gets the weights")
    parser.add_argument("--pids", type=Path, help="where each rank leaves its process id")
    given = parser.parse_args()
    if given.pids is not None:
        (given.pids / str(Launch.of().rank)).write_text(str(os.getpid()))
    with pytest.MonkeyPatch.context() as patch:
        if given.gloo:
            from gloo_weights import send_over_gloo  # torch and TRL, which come after the pid

            send_over_gloo(patch)
        train(load_config(given.config), resume=given.resume)


if __name__ == "__main__":
    main()
