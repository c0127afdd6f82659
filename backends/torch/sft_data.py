"""`load_sft_dataset`: recorded conversations as samples to imitate, cut where they are too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from bridges.demonstrations import demonstration_samples
from bridges.limits import EpisodeLimits
from retrain.rendering import load_renderer
from retrain.rollout.sources import make_tasks
from retrain.runtime import EventLoopThread
from retrain.sample import Sample, Status

Decode: TypeAlias = Callable[[Sequence[int]], str]

_UNBOUNDED = 1_000_000
"""Tokens that no demonstration has: what is too long is cut, not refused."""


@dataclass(frozen=True, slots=True)
class SFTDataset:
    """Demonstrations.

    Attributes:
        samples: What to imitate, with masks that are 1 on what the assistant wrote.
        truncated: How many were cut to `max_length`.
        dropped: How many had nothing to imitate within `max_length`, and are left out.
        tokens: Tokens of all samples.
        trained: Those of them that are imitated.
    """

    samples: tuple[Sample, ...]
    truncated: int
    dropped: int
    tokens: int
    trained: int


def load_sft_dataset(
    path: str | Path,
    *,
    tokenizer: Any,
    split: str = "train",
    subset: str | None = None,
    max_samples: int | None = None,
    max_length: int | None = None,
) -> SFTDataset:
    """Read conversations and render them with the model's own chat template.

    Rows hold `messages`, as in a `prompt_source` of sft. To put several in one row of a batch, see
    `PassSettings.packed`.

    Args:
        path: A JSONL file; or a dataset of the Hugging Face Hub, or a folder or file of one.
        tokenizer: The model's, with a chat template.
        split: Of a dataset.
        subset: A dataset's configuration.
        max_samples: Rows to read, from the first one; None reads all.
        max_length: Most tokens of a sample; a longer one ends on the last token to imitate before.

    Raises:
        DataError: A row cannot be used; it is named.
        ConfigError: The template cannot be exact.
        MissingDependency: The path needs the package `datasets`.
    """
    if str(path).endswith(".jsonl"):
        tasks = make_tasks("jsonl", {"path": str(path)}, Path())[:max_samples]
    else:
        source = {"path": str(path), "name": subset, "split": split, "limit": max_samples}
        tasks = make_tasks("dataset", source, Path())
    renderer = load_renderer(tokenizer)
    limits = EpisodeLimits(max_response_len=_UNBOUNDED)
    with EventLoopThread() as loop:  # the caller may be asynchronous
        whole = loop.run(demonstration_samples(tasks, renderer, limits))
    kept = list(_kept(whole, max_length, renderer.decode))
    return SFTDataset(
        samples=tuple(kept),
        truncated=sum(_too_long(sample, max_length) for sample in whole) - len(whole) + len(kept),
        dropped=len(whole) - len(kept),
        tokens=sum(len(sample.tokens) for sample in kept),
        trained=sum(sum(sample.loss_mask) for sample in kept),
    )


def _kept(samples: Sequence[Sample], max_length: int | None, decode: Decode) -> Iterator[Sample]:
    for sample in samples:
        if max_length is None or not _too_long(sample, max_length):
            yield sample
        elif (cut := truncated(sample, max_length, decode)) is not None:
            yield cut


def _too_long(sample: Sample, max_length: int | None) -> bool:
    return max_length is not None and len(sample.tokens) > max_length


def truncated(sample: Sample, max_length: int, decode: Decode) -> Sample | None:
    """A sample that ends on the last token to imitate among its first `max_length`.

    Its turns are no longer whole, so that it makes no trajectory any more.

    Args:
        sample: What is too long.
        max_length: Most tokens of it that are kept.
        decode: Gives the text of token ids.

    Returns:
        None where nothing to imitate is left.
    """
    prompt = len(sample.prompt_ids)
    mask = sample.loss_mask[: max(0, max_length - prompt)]
    left = max((place for place, flag in enumerate(mask, 1) if flag), default=0)
    if not left:
        return None
    return replace(
        sample,
        tokens=sample.tokens[: prompt + left],
        response=decode(sample.response_ids[:left]),
        response_length=left,
        loss_mask=mask[:left],
        rollout_log_probs=sample.rollout_log_probs[:left],
        status=Status.TRUNCATED,
        metadata={name: value for name, value in sample.metadata.items() if name != "retrain"},
    )
