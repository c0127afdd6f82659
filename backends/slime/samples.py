"""Our samples to slime's and back: the only place that fills slime's `Sample`."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from backends.slime.engine import Answer, Answers
from backends.slime.framework import framework
from backends.slime.replay import complete_replay
from backends.slime.showing import images_of_notes, show_images
from backends.slime.spans import add_spans
from bridges.data_format import KEY
from retrain.rollout.gate import part_seed
from retrain.sample import PrefixCacheInfo, Sample, SpecInfo, Status
from retrain.types import Trajectory
from retrain.vision import VisionProcessor

_UNKNOWN_REWARD = 0.0
"""What slime needs where no reward is known; the sample is removed, and does not vote."""


def fill(
    target: Any,
    samples: Sequence[Sample],
    answers: Iterable[Sequence[Answer]],
    args: Any,
    vision: VisionProcessor | None = None,
) -> Any:
    """Write an episode into the sample that slime gave for it.

    Args:
        target: Slime's sample; every field of the response is reset first.
        samples: The episode's samples, one per segment.
        answers: What the servers said about its turns, in order: one answer for each request that
            a turn took; none where no server of SGLang's wrote it.
        args: Slime's arguments.
        vision: The model's image processor; None where it reads no images.

    Returns:
        `target` itself; where there are several segments, a list of it and its siblings, which
        share a `rollout_id` and the reward.
    """
    reset(target)
    siblings = [target, *(copy.deepcopy(target) for _ in samples[1:])]
    rest = iter(answers)
    for sibling, sample in zip(siblings, samples, strict=True):
        _write(sibling, sample, rest, args)
        show_images(sibling, sample, vision)
    return target if len(siblings) == 1 else siblings


def answers_to(trajectory: Trajectory, answers: Answers) -> list[tuple[Answer, ...]]:
    """What the servers said about each turn of an episode."""
    return [
        answers_of_turn(trajectory.seed.turn(number), len(turn.output_ids), answers)
        for number, turn in enumerate(trajectory.turns)
    ]


def answers_of_turn(seed: int, tokens: int, answers: Answers) -> tuple[Answer, ...]:
    """What the servers said about one turn: more than once where it was interrupted and went on.

    Args:
        seed: The turn's seed.
        tokens: How many tokens it has.
        answers: By the seed of their request.
    """
    found: list[Answer] = []
    written = 0
    while (answer := answers.get(part_seed(seed, written))) is not None:
        found.append(answer)
        written += answer.tokens
        if not answer.tokens or written >= tokens:
            break
    return tuple(found) if written == tokens else ()


def reset(sample: Any) -> None:
    """Put every field of a sample's response back to what a new sample has."""
    fresh = framework().sample()
    for name in _RESPONSE_FIELDS:
        setattr(sample, name, getattr(fresh, name))


_RESPONSE_FIELDS = (
    "tokens",
    "response",
    "response_length",
    "reward",
    "loss_mask",
    "weight_versions",
    "rollout_log_probs",
    "rollout_top_p_token_ids",
    "rollout_top_p_token_offsets",
    "rollout_routed_experts",
    "remove_sample",
    "teacher_log_probs",
    "status",
    "non_generation_time",
    "spec_info",
    "prefix_cache_info",
)


def flat(samples: Iterable[Any]) -> Iterator[Any]:
    """Samples one by one, out of any nesting of lists."""
    for item in samples:
        if isinstance(item, list):
            yield from flat(item)
        else:
            yield item


def ours(sample: Any) -> Sample:
    """A sample of slime as one of ours, for reports and for `to_trajectory`.

    The advantage is not on it: slime computes it later, from what `reward_post_process` gives.
    """
    spec, cache = sample.spec_info, sample.prefix_cache_info
    length = sample.response_length
    return Sample(
        group_index=sample.group_index,
        index=sample.index,
        rollout_id=sample.rollout_id,
        prompt=sample.prompt,
        tokens=list(sample.tokens),
        multimodal_inputs=images_of_notes(sample),
        response=sample.response,
        response_length=length,
        label=sample.label,
        reward=None if sample.remove_sample else sample.reward,
        loss_mask=[1] * length if sample.loss_mask is None else list(sample.loss_mask),
        rollout_log_probs=list(sample.rollout_log_probs or [0.0] * length),
        weight_versions=[str(version) for version in sample.weight_versions],
        status=Status(sample.status.value),
        remove_sample=sample.remove_sample,
        metadata=sample.metadata,
        session_id=sample.session_id,
        non_generation_time=sample.non_generation_time,
        spec_info=SpecInfo(
            spec.spec_accept_token_num,
            spec.spec_draft_token_num,
            spec.spec_verify_ct,
            spec.completion_token_num,
        ),
        prefix_cache_info=PrefixCacheInfo(cache.cached_tokens, cache.total_prompt_tokens),
    )


def _write(target: Any, sample: Sample, answers: Iterator[Sequence[Answer]], args: Any) -> None:
    """Fill one sample, turn by turn, as slime itself would."""
    target.tokens = sample.prompt_ids
    ids, logprobs = sample.response_ids, sample.rollout_log_probs
    at = 0
    for note in sample.metadata[KEY]["turns"]:
        asked = next(answers, ())
        middle = at + note["output"]
        for count, meta in _requests(note, asked):
            target.append_response_tokens(
                args,
                tokens=ids[at : at + count],
                log_probs=logprobs[at : at + count],
                meta_info={"prompt_tokens": len(target.tokens), **meta},
            )
            at += count
        at = middle + note["env"]
        if at > middle:
            target.append_response_tokens(args, tokens=ids[middle:at], trainable=False)
        for answer in asked:
            target.session_id = answer.session_id
            add_spans(target, answer)
    if at < len(ids):
        target.append_response_tokens(args, tokens=ids[at:], trainable=False)
    _conclude(target, sample, args)
    complete_replay(target, args)


def _conclude(target: Any, sample: Sample, args: Any) -> None:
    """Fill what belongs to the episode as a whole."""
    target.response = sample.response
    target.loss_mask = list(sample.loss_mask)
    target.remove_sample = sample.remove_sample
    target.status = type(target).Status(sample.status.value)
    target.reward = _reward(sample, args)
    target.non_generation_time = sample.non_generation_time
    target.metadata = {**(target.metadata or {}), **sample.metadata}
    if target.rollout_id is None:
        target.rollout_id = sample.rollout_id if target.index is None else target.index


def _reward(sample: Sample, args: Any) -> Any:
    if sample.status is Status.ABORTED:
        return None
    return keyed(args, _UNKNOWN_REWARD if sample.reward is None else sample.reward)


def keyed(args: Any, reward: Any) -> Any:
    """A reward as slime reads it: with `--reward-key`, a mapping that holds it."""
    key = getattr(args, "reward_key", None)
    return {key: reward} if key else reward


def _requests(
    note: Mapping[str, Any], asked: Sequence[Answer]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The tokens and the figures of each request of a turn, whoever wrote it."""
    if asked:
        yield from ((answer.tokens, answer.meta_info) for answer in asked)
        return
    cached = note["cached_tokens"]
    for count, version in note.get("weight_spans") or [(note["output"], note["weight_version"])]:
        yield (
            count,
            {
                "finish_reason": {"type": note["finish_reason"]},
                "completion_tokens": count,
                "cached_tokens": cached,
                "weight_version": version,
            },
        )
        cached = 0
