"""`DataFormatBridge`: Trajectory to Samples and back, without loss.

Length symbols: P prompt tokens, R response tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from retrain.rendering.base import Renderer
from retrain.sample import PrefixCacheInfo, Sample
from retrain.seeds import EpisodeSeed
from retrain.types import Group, Message, Segment, Trajectory, Turn

KEY = "retrain"
"""Where `Sample.metadata` keeps what `to_trajectory` needs."""

Fresh: TypeAlias = Collection[str] | None
"""Weight versions that are trained on; None is all of them."""

_TRAJECTORY = TypeAdapter(Trajectory)
_TURN = TypeAdapter(Turn)
_SEED = TypeAdapter(EpisodeSeed)
_MESSAGES = TypeAdapter(tuple[Message, ...])
_TOKENS = {"output_ids", "output_logprobs", "env_ids"}


class DataFormatBridge:
    """Converts episodes into what trainers read, and back."""

    def __init__(self, renderer: Renderer) -> None:
        """Make a bridge.

        Args:
            renderer: Decodes the response text and names the padding token.
        """
        self.renderer = renderer

    def to_samples(
        self, trajectory: Trajectory, advantage: float = 0.0, *, fresh: Fresh = None
    ) -> list[Sample]:
        """Turn an episode into its samples, one per segment.

        An episode that failed before its first prompt becomes a placeholder of two padding tokens
        that keeps the slot and trains nothing.

        Args:
            trajectory: The episode, scored or not.
            advantage: The advantage of every token that its policy sampled.
            fresh: The weight versions whose tokens are trained on; the tokens of others get mask 0
                and keep their logprobs. None trains on all.

        Returns:
            Validated samples; siblings share `rollout_id`, and only the first has the reward's
            bookkeeping.
        """
        segments = trajectory.segments or (Segment((self.renderer.pad_token_id,)),)
        samples = [
            self._sample(trajectory, segment, position, advantage, fresh)
            for position, segment in enumerate(segments)
        ]
        for sample in samples:
            sample.validate()
        return samples

    def group_samples(self, group: Group, *, fresh: Fresh = None) -> list[list[Sample]]:
        """Turn a group into its samples: G lists, one per slot; `fresh` as in `to_samples`."""
        pairs = zip(group.trajectories, group.advantages, strict=True)
        return [self.to_samples(episode, advantage, fresh=fresh) for episode, advantage in pairs]

    def to_trajectory(self, samples: Sequence[Sample]) -> Trajectory:
        """Rebuild the episode that `samples` came from.

        Args:
            samples: All the siblings of one rollout, in any order.

        Raises:
            ValueError: The samples were not made by `to_samples`, or some are missing.
        """
        return rebuild(samples)

    def _sample(
        self,
        trajectory: Trajectory,
        segment: Segment,
        position: int,
        advantage: float,
        fresh: Fresh,
    ) -> Sample:
        trained = int(trajectory.valid)
        response, mask, logprobs = _columns(segment, trained, fresh)
        if not response:
            response, mask, logprobs = [self.renderer.pad_token_id], [0], [0.0]
        return Sample(
            group_index=trajectory.group_index,
            index=trajectory.index,
            rollout_id=trajectory.index,
            prompt=_prompt(trajectory),
            tokens=[*segment.prompt_ids, *response],
            multimodal_inputs={"images": list(segment.images)} if segment.images else None,
            response=self.renderer.decode(response) if segment.turns else "",
            response_length=len(response),
            label=trajectory.task.label,
            reward=trajectory.reward,
            loss_mask=mask,
            rollout_log_probs=logprobs,
            weight_versions=[version for turn in segment.turns for _, version in turn.spans],
            status=trajectory.status,
            remove_sample=not trained,
            metadata={**trajectory.task.metadata, KEY: _make_notes(trajectory, segment, position)},
            non_generation_time=_environment_seconds(trajectory, position),
            prefix_cache_info=_cache_info(segment),
            advantage=advantage if trained else 0.0,
        )


def rebuild(samples: Sequence[Sample]) -> Trajectory:
    """The episode that `samples` came from; see `DataFormatBridge.to_trajectory`."""
    ordered = sorted(samples, key=lambda sample: _notes(sample)["segment"])
    notes = [_notes(sample) for sample in ordered]
    if [note["segment"] for note in notes] != list(range(notes[0]["segments"] or 1)):
        raise ValueError(
            f"rollout {ordered[0].rollout_id}: has {notes[0]['segments']} segments, got "
            f"{[note['segment'] for note in notes]}"
        )
    trajectory = _TRAJECTORY.validate_python(notes[0]["trajectory"])
    if not notes[0]["segments"]:
        return trajectory
    segments = tuple(_segment(s, note) for s, note in zip(ordered, notes, strict=True))
    return replace(trajectory, segments=segments)


def _columns(
    segment: Segment, trained: int, fresh: Fresh
) -> tuple[list[int], list[int], list[float]]:
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for turn in segment.turns:
        ids += [*turn.output_ids, *turn.env_ids]
        for count, version in turn.spans:
            mask += [trained if fresh is None or version in fresh else 0] * count
        mask += [0] * len(turn.env_ids)
        logprobs += [*turn.output_logprobs, *[0.0] * len(turn.env_ids)]
    return ids, mask, logprobs


def _environment_seconds(trajectory: Trajectory, position: int) -> float:
    """Seconds spent in the environment for a segment's turns; the first one's include `reset`."""
    if len(trajectory.segments) <= 1:
        return trajectory.seconds("environment")
    starts = [0, *accumulate(len(segment.turns) for segment in trajectory.segments)]
    first, end = starts[position] if position else -1, starts[position + 1]
    return sum(
        timing.seconds
        for timing in trajectory.timings
        if timing.kind == "environment" and first <= timing.turn < end
    )


def _prompt(trajectory: Trajectory) -> str | list[dict[str, Any]]:
    prompt = trajectory.task.prompt
    if isinstance(prompt, str):
        return prompt
    messages: list[dict[str, Any]] = _MESSAGES.dump_python(prompt, mode="json")
    return [without_no_images(message) for message in messages]


def without_no_images(message: dict[str, Any]) -> dict[str, Any]:
    """A message as JSON, which says nothing of images where it shows none."""
    return {key: value for key, value in message.items() if key != "images" or value}


def _cache_info(segment: Segment) -> PrefixCacheInfo:
    seen, total = len(segment.prompt_ids), 0
    for turn in segment.turns:
        total += seen
        seen += len(turn.output_ids) + len(turn.env_ids)
    return PrefixCacheInfo(sum(turn.cached_tokens for turn in segment.turns), total)


def _make_notes(trajectory: Trajectory, segment: Segment, position: int) -> dict[str, Any]:
    notes: dict[str, Any] = {
        "segment": position,
        "segments": len(trajectory.segments),
        "turns": [
            {
                "output": len(turn.output_ids),
                "env": len(turn.env_ids),
                **_TURN.dump_python(turn, mode="json", exclude=_TOKENS),
            }
            for turn in segment.turns
        ],
    }
    if segment.images:
        notes["images"] = list(segment.images)
    if position:
        notes["seed"] = _SEED.dump_python(trajectory.seed, mode="json")
    else:
        bare = replace(trajectory, segments=())
        notes["trajectory"] = _TRAJECTORY.dump_python(bare, mode="json", exclude={"witness"})
    return notes


def _notes(sample: Sample) -> dict[str, Any]:
    notes = sample.metadata.get(KEY)
    if not isinstance(notes, dict):
        raise ValueError(
            f"sample {sample.index}: metadata[{KEY!r}] is missing; nobody converted it"
        )
    return notes


def _segment(sample: Sample, notes: dict[str, Any]) -> Segment:
    ids, logprobs = sample.response_ids, sample.rollout_log_probs
    turns: list[Turn] = []
    at = 0
    for note in notes["turns"]:
        split = at + note["output"]
        end = split + note["env"]
        tokens = {
            "output_ids": ids[at:split],
            "output_logprobs": logprobs[at:split],
            "env_ids": ids[split:end],
        }
        fields = {key: value for key, value in note.items() if key not in ("output", "env")}
        turns.append(_TURN.validate_python({**fields, **tokens}))
        at = end
    return Segment(tuple(sample.prompt_ids), tuple(turns), tuple(notes.get("images", ())))
