"""Scores one case by a rule's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrain.reward.hub.boxed import unboxed
from retrain.reward.hub.cases import Case, Score
from retrain.reward.hub.catalogue import BOXED, load_rule


def make_scorer(name: str) -> Callable[..., Score]:
    """A rule as a function of (case, **params), its box taken out where the name says so.

    Args:
        name: The rule's name, with or without `boxed_`.

    Raises:
        ConfigError: There is no such rule.
        MissingDependency: It needs a package that is not installed.
    """
    rule = load_rule(name)
    if not name.startswith(BOXED):
        return rule

    def boxed(case: Case, **params: Any) -> Score:
        inside: Score = rule(unboxed(case, params.get("compat")), **params)
        return inside

    return boxed
