"""What every function of the plugin shares in one process: bridges, engine, tasks and loop."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from backends.slime.engine import Answers, SlimeSampling, router_engine
from backends.slime.handover import Handover, read_handover
from backends.slime.live_episodes import LiveEpisodes
from backends.slime.loop import Loop, make_loop
from backends.slime.nesting import gives_segments
from backends.slime.offline import offline_composition, offline_engine
from backends.slime.recording import RunLog
from backends.slime.weights_watch import WeightsWatch
from bridges import RolloutBridge
from retrain.compose import Composition, compose, load_engine, make_tasks, sampling_params
from retrain.config import RunConfig
from retrain.engine.base import InferenceEngine
from retrain.rollout.filter_building import make_filter
from retrain.rollout.filters import GroupFilter
from retrain.types import Task

if TYPE_CHECKING:
    from backends.slime.collecting import Collecting
    from backends.slime.data_source import DataSource

_lock = Lock()
_contexts: dict[str, Context] = {}
_by_args: dict[int, tuple[ReferenceType[Any], Context]] = {}
"""By the identity of slime's `args`, so that a call for one sample reads no configuration."""


@dataclass
class Context:
    """One configuration's bridges and engine, made once per process.

    Attributes:
        handover: The configuration and the run folder.
        args: Slime's arguments, as they were when it was made.
        composition: The bridges.
        watch: Notices weights that do not move.
        data_source: The data source that slime made, where it is ours.
        live: Episodes that slime has aborted, and may go on with.
        collecting: What outlives a rollout where retrain fills it.
    """

    handover: Handover
    args: Any
    composition: Composition
    watch: WeightsWatch = field(default_factory=WeightsWatch)
    data_source: DataSource | None = None
    live: LiveEpisodes = field(default_factory=LiveEpisodes)
    collecting: Collecting | None = None
    _configured: dict[bool, RolloutBridge] = field(default_factory=dict)

    @property
    def config(self) -> RunConfig:
        """The configuration."""
        return self.handover.config

    @property
    def run_dir(self) -> Path | None:
        """The run folder."""
        return self.handover.run_dir

    @cached_property
    def log(self) -> RunLog | None:
        """Writes the run folder; None where there is none."""
        if self.run_dir is None:
            return None
        composition = self.composition
        return RunLog(self.run_dir, composition.data_format, composition.renderer.decode)

    @cached_property
    def engine(self) -> InferenceEngine:
        """Slime's router; what `rollout.engine` names where no slime is running.

        Raises:
            ConfigError: Slime runs and has started no router.
        """
        if hasattr(self.args, "sglang_router_ip"):
            return router_engine(self.composition, self.args)
        if self.handover.built_in:
            return offline_engine()
        return load_engine(self.config.rollout.engine, self.composition)

    @cached_property
    def loop(self) -> Loop:
        """Runs asynchronous work for synchronous calls."""
        return make_loop()

    @cached_property
    def filter(self) -> GroupFilter | None:
        """What `rollout.filter` describes.

        Raises:
            ConfigError: There is no such filter, or a parameter is wrong.
        """
        spec = self.config.rollout.filter
        return None if spec is None else make_filter(spec)

    @cached_property
    def segmented(self) -> bool:
        """Whether episodes may have several samples, so that each is given as a list of them."""
        return gives_segments(self.config) is not None

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The training tasks by id."""
        return {task.id: task for task in make_tasks(self.config)}

    @cached_property
    def evaluation_tasks(self) -> tuple[Task, ...]:
        """The held-out tasks."""
        section = self.config.evaluation
        return () if section is None else make_tasks(self.config, section.prompt_source)

    def configured(self, *, evaluation: bool) -> RolloutBridge:
        """The bridge that the configuration describes, made once: episodes are many."""
        if evaluation not in self._configured:
            made = self.composition.rollouts(self.engine, evaluation=evaluation)
            params = self.sampling(evaluation=evaluation)
            self._configured[evaluation] = made.with_settings(replace(made.settings, params=params))
        return self._configured[evaluation]

    def rollouts(self, *, n_samples: int | None = None, evaluation: bool = False) -> RolloutBridge:
        """The bridge that collects groups, sampling as slime's arguments want.

        Args:
            n_samples: G; None is the configuration's.
            evaluation: Whether episodes are held out.
        """
        bridge = self.composition.rollouts(self.engine, evaluation=evaluation)
        settings = bridge.settings
        params = self.sampling(evaluation=evaluation)
        number = settings.n_samples if n_samples is None else n_samples
        return bridge.with_settings(replace(settings, params=params, n_samples=number))

    def sampling(self, *, evaluation: bool = False) -> SlimeSampling:
        """How to sample, with a place for the answers of one rollout."""
        params = sampling_params(self.config, evaluation=evaluation)
        raw: dict[str, Any] = {}
        if getattr(self.args, "rollout_top_p", 1.0) != 1.0:
            raw["custom_params"] = {"return_top_p_token_ids": True}
        return SlimeSampling(
            params.max_tokens, params.temperature, params.top_p, params.top_k, raw=raw
        )


def answers_of(bridge: RolloutBridge) -> Answers:
    """Where the answers of a bridge's turns are kept."""
    params = bridge.settings.params
    return params.answers if isinstance(params, SlimeSampling) else {}


def context_of(args: Any) -> Context:
    """The context of a call, made at the first one.

    Args:
        args: Slime's arguments; None or bare ones are answered as `read_handover` says.

    Raises:
        ConfigError: There is no configuration, or it cannot be used.
    """
    known = _by_args.get(id(args))
    if known is not None and known[0]() is args:
        return known[1]
    handover = read_handover(args)
    context = _context(handover, args)
    if hasattr(args, "retrain_config"):
        _by_args[id(args)] = ref(args), context
    return context


def _context(handover: Handover, args: Any) -> Context:
    """The context of a configuration and a router, made at the first call."""
    key = json.dumps(
        [
            handover.config.model_dump(mode="json"),
            str(handover.run_dir),
            str(getattr(args, "sglang_router_ip", None)),
            str(getattr(args, "sglang_router_port", None)),
        ],
        sort_keys=True,
        default=str,
    )
    with _lock:
        if key not in _contexts:
            _contexts[key] = _make(handover, args)
        return _contexts[key]


def _make(handover: Handover, args: Any) -> Context:
    if handover.built_in:
        return Context(handover, args, offline_composition(handover.config))
    return Context(handover, args, compose(handover.config))
