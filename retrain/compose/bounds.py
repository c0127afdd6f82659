"""What the configuration says about one episode: its bounds, and what follows its failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from retrain.errors import Boundary

if TYPE_CHECKING:
    from bridges import EpisodeLimits, FailurePolicy
    from retrain.config import RunConfig


def episode_limits(config: RunConfig, positions: int | None = None) -> EpisodeLimits:
    """The bounds of an episode.

    Args:
        config: One stage's configuration.
        positions: How many positions the model knows; bounds the context too.
    """
    from bridges import EpisodeLimits

    hyper, rollout = config.algorithm.hyperparameters, config.rollout
    contexts = [bound for bound in (hyper.max_context_len, positions) if bound is not None]
    return EpisodeLimits(
        max_response_len=hyper.max_response_len,
        max_tokens_per_turn=hyper.max_tokens_per_turn,
        max_context_len=min(contexts) if contexts else None,
        max_prompt_len=hyper.max_prompt_len,
        max_turns=rollout.max_turns,
        step_timeout=rollout.step_timeout,
        generate_timeout=rollout.generate_timeout,
        engine_retries=rollout.engine_retries,
        max_restarts=rollout.executor.max_restarts,
        stop_strings=rollout.stop_strings,
    )


def failure_policy(config: RunConfig) -> FailurePolicy:
    """What happens to failed episodes."""
    from bridges import FailureAction, FailurePolicy

    rollout = config.rollout
    actions: Mapping[str, str] = rollout.failure.model_dump()
    return FailurePolicy(
        actions={Boundary(name): FailureAction(action) for name, action in actions.items()},
        retries=rollout.episode_retries,
        max_failure_rate=rollout.max_failure_rate,
    )
