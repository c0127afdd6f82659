"""Lay one partial configuration over another: stages over the file, `--set` over both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.config.section import At
from retrain.config.vocabulary import SYNONYMS

_EXECUTOR = ("rollout", "executor")
_TYPED = (("environment",), ("prompt_source",), ("evaluation", "prompt_source"), _EXECUTOR)
_HYPERPARAMETERS = ("algorithm", "hyperparameters")
_EITHER = {"num_iterations": "num_epochs", "num_epochs": "num_iterations"}


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any], at: At = ()) -> dict[str, Any]:
    """Lay `over` on `base`; neither is changed.

    Mappings merge key by key, everything else is replaced. Two things besides:

    - A section whose `type` changes is replaced as a whole: the settings of one prompt source or
      environment mean nothing to another. An executor's `type` may stand alone, in its place.
    - A hyperparameter replaces its synonyms, and num_epochs replaces num_iterations.

    Args:
        base: What lies below.
        over: What wins.
        at: Where both stand in the file.
    """
    if at in _TYPED and "type" in over and base.get("type") != over["type"]:
        return dict(over)
    displaced: set[str] = set()
    if at == _HYPERPARAMETERS:
        displaced = {name for key, value in over.items() for name in _displaced(key, value)}
    merged = {key: value for key, value in base.items() if key in over or key not in displaced}
    for key, value in over.items():
        below = _as_section(merged.get(key), (*at, key))
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = deep_merge(below, value, (*at, key))
        else:
            merged[key] = value
    return merged


def _as_section(value: object, at: At) -> object:
    return {"type": value} if at == _EXECUTOR and isinstance(value, str) else value


def _displaced(key: str, value: object) -> set[str]:
    """Other keys of the base that a hyperparameter of the overlay replaces."""
    canonical = SYNONYMS.get(key, key)
    names = {canonical, *(s for s, target in SYNONYMS.items() if target == canonical)} - {key}
    if value is not None and key in _EITHER:
        names.add(_EITHER[key])
    return names
