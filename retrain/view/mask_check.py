"""Masks that cannot be right: what a trainer would learn from by mistake, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from retrain.view.fields import Fields, column, whole
from retrain.view.lines import BrokenLine


def mask_faults(row: Fields, turns: Sequence[Fields]) -> tuple[str, ...]:
    """What is wrong with the mask of a sample.

    Args:
        row: The sample's row.
        turns: The conversion's notes of its turns: `output` sampled tokens, then `env` others.

    Returns:
        One sentence per fault; empty where there is none.

    Raises:
        BrokenLine: The columns do not fit each other, so that the row is no sample.
    """
    tokens, mask = column(row, "tokens"), column(row, "loss_mask")
    logprobs = column(row, "rollout_log_probs")
    length = whole(row, "response_length")
    if length is None or not length == len(mask) == len(logprobs) or length > len(tokens):
        raise BrokenLine(
            f"response_length is {length}, with {len(tokens)} tokens, {len(mask)} mask values and "
            f"{len(logprobs)} logprobs"
        )
    ones = mask.count(1)
    faults = []
    if ones + mask.count(0) != len(mask):
        faults.append("the mask holds something else than 0 and 1")
    if row.get("remove_sample") is True and ones:
        faults.append(f"a removed sample has {ones} trained tokens")
    if replies := _trained_replies(mask, turns):
        faults.append(f"{replies} tokens of the environment are trained on")
    if unknown := sum(
        bit == 1 and value is None for bit, value in zip(mask, logprobs, strict=True)
    ):
        faults.append(f"{unknown} trained tokens have no finite logprob")
    return tuple(faults)


def _trained_replies(mask: Sequence[int], turns: Sequence[Fields]) -> int:
    at = found = 0
    for turn in turns:
        middle = at + (whole(turn, "output") or 0)
        at = middle + (whole(turn, "env") or 0)
        found += sum(bit == 1 for bit in mask[middle:at])
    return found
