"""Counts of an episode as reward components: with weight 0 they are curves and train nothing."""

from __future__ import annotations

from retrain.types import Trajectory


def questions(trajectory: Trajectory) -> float:
    """How many questions the model asked."""
    return float(sum(turn.info.get("questions", 0) for turn in trajectory.turns))


def pair_questions(trajectory: Trajectory) -> float:
    """How many of them were about exactly one reviewer and one paper."""
    return float(sum(turn.info.get("pair_questions", 0) for turn in trajectory.turns))


def turns(trajectory: Trajectory) -> float:
    """How many turns the model took."""
    return float(len(trajectory.turns))


def partner_cost(trajectory: Trajectory) -> float:
    """What the partner cost, where it has a price."""
    return float(trajectory.turns[-1].info.get("partner_cost", 0.0))
