"""pass@k: the chance that at least one of k samples of a task succeeds."""

from __future__ import annotations

from math import comb


def pass_at_k(samples: int, successes: int, k: int) -> float:
    """Estimate pass@k of one task from n samples of which c succeeded, without bias.

    1 - C(n - c, k) / C(n, k): the share of the k-subsets of the n samples that hold a success
    (Chen et al., 2021, "Evaluating Large Language Models Trained on Code", equation 1). The
    plug-in estimate 1 - (1 - c/n)^k is biased downwards. Binomials are exact integers, and the one
    division is correctly rounded.

    Args:
        samples: n, how many samples there are.
        successes: c, how many of them succeeded.
        k: How many samples a user of the model would draw.

    Returns:
        A probability.

    Raises:
        ValueError: Not 0 <= successes <= samples, or not 1 <= k <= samples.
    """
    if not 0 <= successes <= samples:
        raise ValueError(f"{successes} successes among {samples} samples")
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} needs 1 <= k <= {samples}, the number of samples")
    subsets = comb(samples, k)
    return (subsets - comb(samples - successes, k)) / subsets


def reported_ks(samples: int) -> tuple[int, ...]:
    """The k that are reported for n samples per task: 1, 2, 4, 8 … below n, and n itself."""
    doubling = (1 << power for power in range(samples.bit_length()))
    return (*(k for k in doubling if k < samples), samples)
