"""The composition root: the only place that finds bridges and backends, by name, when called.

Everything heavy, and every bridge and backend, is imported inside the functions, so importing this
package loads nothing of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrain.compose.bounds import episode_limits, failure_policy
from retrain.compose.composition import Composition, compose, compose_with
from retrain.compose.dry_run import Preview, check_inputs, preview
from retrain.compose.frameworks import (
    backend_names,
    check_backends,
    find_start,
    framework_defaults,
    load_backend,
    make_problem,
    read_loss,
)
from retrain.compose.parts import (
    load_engine,
    make_buffer,
    make_renderer,
    make_tasks,
    make_vision,
    sampling_params,
)
from retrain.compose.players import agent_rollouts, episodes_of

if TYPE_CHECKING:
    from retrain.compose.parts import ClosableEngine as ClosableEngine

__all__ = [
    "Composition",
    "Preview",
    "agent_rollouts",
    "backend_names",
    "check_backends",
    "check_inputs",
    "compose",
    "compose_with",
    "episode_limits",
    "episodes_of",
    "failure_policy",
    "find_start",
    "framework_defaults",
    "load_backend",
    "load_engine",
    "make_buffer",
    "make_problem",
    "make_renderer",
    "make_tasks",
    "make_vision",
    "preview",
    "read_loss",
    "sampling_params",
]
