"""`type: reasoning_gym`: the data sets of reasoning-gym, each question one turn."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from retrain.environment.adapters.loading import require
from retrain.environment.adapters.own_random import OwnRandom
from retrain.environment.adapters.text import small_seed, with_system_prompt
from retrain.errors import ConfigError, EnvironmentFailure, nearest
from retrain.types import Action, Observation, StepResult, Task

_KEY = "prompt_source.source_config"
_MADE = "reasoning_gym"
_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, SyntaxError)
"""What the scoring of some data sets raises on an answer that it cannot read."""
_EVALUATED = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
"""Data sets whose scoring calls `eval` on the answer, to accept a list as Python writes it."""


class ReasoningGymEnvironment:
    """Asks one question and scores the answer with the data set's own `score_answer`.

    Questions come from `prompt_source: {type: environment}` (see `tasks`), or from rows that
    reasoning-gym wrote: `prompt` the question, `label` the answer, and its `metadata`, which names
    the data set as `source_dataset`. The answer is what stands between the last pair of tags, taken
    out as reasoning-gym does it; without tags there is none. One that the scoring cannot read
    earns 0, and its `info` says so.

    Args:
        system_prompt: A key of reasoning-gym's `SYSTEM_PROMPTS`, a text of one's own, or None.
        answer_tag: The tag around the answer; None takes all of the text.

    Raises:
        MissingDependency: reasoning-gym is not installed.
    """

    replayable = True

    def __init__(
        self, *, system_prompt: str | None = "default", answer_tag: str | None = "answer"
    ) -> None:
        _require()
        self._system_prompt = system_prompt
        self._tag = answer_tag
        self._entry: dict[str, Any] = {}
        self._dataset: Any = None

    @classmethod
    def tasks(
        cls,
        *,
        seed: int,
        dataset: str,
        config: Mapping[str, Any] | None = None,
        count: int = 1000,
    ) -> Iterator[Task]:
        """Make questions, for `prompt_source: {type: environment}`.

        Args:
            seed: Nearly all data sets draw question i from `seed + i`, so that seeds nearer to each
                other than `count` share questions.
            dataset: The data set's name (`leg_counting`, `composite` …).
            config: Its configuration; that of `composite` has `datasets`, a list of
                `{name, weight, config}`.
            count: How many.

        Raises:
            ConfigError: There is no such data set, or it does not take the configuration.
        """
        _require()
        row = {"dataset": dataset, "config": dict(config or {}), "seed": small_seed(seed)}
        for index in range(count):
            made = {**row, "size": count, "index": index}
            entry = _entry(json.dumps(made))
            answer = entry["answer"] if isinstance(entry["answer"], str) else None
            name = f"{dataset}-{row['seed']}-{index}"
            yield Task(name, entry["question"], answer, {_MADE: made})

    def reset(self, task: Task) -> Observation:
        """Ask the task's question.

        Raises:
            EnvironmentFailure: The task is none of reasoning-gym, or the installed version makes
                another question of it.
        """
        made = task.metadata.get(_MADE)
        if made is None:
            self._dataset, self._entry = _of_row(task)
        else:
            self._dataset, self._entry = _dataset_of(made), copy.deepcopy(_entry(json.dumps(made)))
            if self._entry["question"] not in task.messages[-1].content:
                raise EnvironmentFailure(
                    f"task {task.id!r}: this version of reasoning-gym makes another question of "
                    f"{made['dataset']} {made['index']}"
                )
        return Observation(with_system_prompt(task.messages, self._system_text()))

    def step(self, action: Action) -> StepResult:
        """Score the answer; the episode is over."""
        answer = self._answer(action)
        info: dict[str, Any] = {"answer": answer}
        try:
            score = float(self._dataset.score_answer(answer, self._entry))
        except _UNREADABLE as error:
            score = 0.0
            info["unreadable"] = f"{type(error).__name__}: {error}"
        return StepResult(Observation(), score, True, False, {**info, "success": score >= 1.0})

    def _answer(self, action: Action) -> str | None:
        if action.truncated or self._tag is None:
            return None if action.truncated else action.text.strip()
        found: str | None = _library(".utils").extract_answer(action.text, self._tag)
        return found

    def _system_text(self) -> str | None:
        if self._system_prompt is None:
            return None
        known: Mapping[str, str] = _library(".utils").SYSTEM_PROMPTS
        return known.get(self._system_prompt, self._system_prompt)


def _require() -> None:
    require("reasoning_gym", "environment reasoning_gym", "retrain[reasoning-gym]")


def _library(module: str = "") -> Any:
    import_module("reasoning_gym")  # whole: its data sets are registered as it is imported
    return import_module(f"reasoning_gym{module}")


def _dataset_of(made: Mapping[str, Any]) -> Any:
    parts = [made[name] for name in ("dataset", "config", "seed", "size")]
    return _create(json.dumps(parts, sort_keys=True))


@lru_cache(maxsize=256)
def _entry(made: str) -> dict[str, Any]:
    """The question of a row that `tasks` made: a group asks it several times."""
    row = json.loads(made)
    with OwnRandom(row["seed"]).in_place():
        entry: dict[str, Any] = _dataset_of(row)[row["index"]]
    return entry


@lru_cache(maxsize=32)
def _create(parts: str) -> Any:
    """A data set, as `tasks` asks for it; JSON, since a configuration is no key."""
    name, config, seed, size = json.loads(parts)
    _known(name)
    _read_literals_only()
    try:
        if name == "composite":
            spec = _library(".composite").DatasetSpec
            config["datasets"] = [
                spec(**{"weight": 1.0, "config": {}, **each}) for each in config.get("datasets", ())
            ]
        return _library().create_dataset(name, **{"seed": seed, "size": size, **config})
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigError(f"{_KEY}.config: {name}: {type(error).__name__}: {error}") from error


def _known(name: str) -> None:
    known = {*_library(".factory").DATASETS}
    if name not in known:
        raise ConfigError(f"{_KEY}.dataset: reasoning-gym has no {name!r}; {nearest(name, known)}")


@lru_cache(maxsize=1)
def _read_literals_only() -> None:
    """Give the modules that evaluate answers an `eval` of their own: a model runs no code here."""
    known = _library(".factory").DATASETS
    for name in known.keys() & set(_EVALUATED):
        vars(import_module(known[name][0].__module__))["eval"] = ast.literal_eval


def _of_row(task: Task) -> tuple[Any, dict[str, Any]]:
    """Data set and entry of a row that reasoning-gym wrote."""
    metadata = task.metadata.get("metadata", task.metadata)
    name = metadata.get("source_dataset") if isinstance(metadata, Mapping) else None
    if name is None:
        raise EnvironmentFailure(
            f"task {task.id!r} is none of reasoning-gym: it has no metadata.source_dataset; use "
            "prompt_source: {type: environment, source_config: {dataset: NAME}}"
        )
    entry = {"question": task.messages[-1].content, "answer": task.label, "metadata": metadata}
    return _create(json.dumps([name, {}, 0, 1])), entry
