"""How the losses of tokens make the loss of an optimizer step: a weight for each row's tokens.

The weights are those of the whole step, so that its micro-batches, and its processes, only add up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, TypeAlias

from retrain.errors import ConfigError, nearest

Aggregation: TypeAlias = Literal["token", "sequence", "constant"]

AGGREGATIONS: tuple[Aggregation, ...] = ("token", "sequence", "constant")


def token_weights(
    trained: Sequence[int],
    rollouts: Sequence[int],
    aggregation: Aggregation,
    constant: int = 1,
) -> list[float]:
    """What a unit of a token's loss adds to the loss of its optimizer step, row by row.

    - token: the mean over all tokens of the step. Yu et al. 2025, "DAPO" (arXiv:2503.14476),
      equation 8.
    - sequence: the mean over the step's rollouts of the mean over a rollout's tokens. Shao et al.
      2024, "DeepSeekMath" (arXiv:2402.03300), equation 3.
    - constant: the mean over the step's rollouts of the sum over a rollout's tokens, over a
      constant. Liu et al. 2025, "Understanding R1-Zero-Like Training: A Critical Perspective"
      (arXiv:2503.20783), listing 1.

    Args:
        trained: [B] trained tokens of each row of the step.
        rollouts: [B] the rollout that each row belongs to; rows of one rollout share its number.
        aggregation: token, sequence or constant.
        constant: The constant, in tokens: the longest response that is allowed.

    Returns:
        [B] weights. Rollouts without trained tokens count among the step's rollouts.

    Raises:
        ConfigError: There is no such aggregation.
    """
    if aggregation not in AGGREGATIONS:
        hint = nearest(aggregation, AGGREGATIONS)
        raise ConfigError(f"loss_aggregation: no aggregation {aggregation!r}; {hint}")
    if aggregation == "token":
        return [1 / max(sum(trained), 1)] * len(trained)
    tokens: defaultdict[int, int] = defaultdict(int)
    for rollout, count in zip(rollouts, trained, strict=True):
        tokens[rollout] += count
    if aggregation == "constant":
        return [1 / (constant * len(tokens))] * len(trained)
    return [1 / (max(tokens[rollout], 1) * len(tokens)) for rollout in rollouts]
