"""Loggers: trackio, Weights & Biases, TensorBoard or one's own, each a copy of `metrics.jsonl`.

The metrics file is the source of truth, whichever backend and process writes it. A logger follows
that file in a thread of its own, in the process that launched the run; one that fails or hangs is
named and left behind, and the run goes on.

Importing this package loads none of them.
"""

from retrain.loggers.base import LoggedRun, LoggerFailure, MetricsLogger
from retrain.loggers.registry import LOGGERS

__all__ = ["LOGGERS", "LoggedRun", "LoggerFailure", "MetricsLogger"]
