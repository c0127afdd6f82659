"""Backends with one fault each; run by test_kit_catches.py, and not collected otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retrain.parity import LossReading, LossRow
from retrain.reward.advantages import group_advantages
from retrain.testing import BackendSuite, CannedGroup
from retrain.testing.canned.cases import MEMBERS
from retrain.testing.tokenizer import kit_tokenizer


class TestRight(BackendSuite):
    """Hands on what it gets, in one optimizer step."""

    def rows(self, groups: Sequence[CannedGroup]) -> LossReading:
        slots = [slot for group in groups for slot in group.slots]
        rows = [self.row(sample, part) for slot in slots for part, sample in enumerate(slot)]
        total = sum(row.trained for row in rows)
        weighted = [replace(row, weights=tuple(m / total for m in row.mask)) for row in rows]
        return LossReading("right", "here", tuple(weighted), aggregation="token")

    def row(self, sample: Any, part: int) -> LossRow:
        return LossRow(
            index=sample.index,
            part=part,
            tokens=tuple(sample.tokens),
            mask=tuple(sample.loss_mask),
            logprobs=tuple(sample.rollout_log_probs),
            reward=sample.reward,
            advantage=sample.advantage,
        )


class TestMaskOffByOne(TestRight):
    def row(self, sample: Any, part: int) -> LossRow:
        sample.loss_mask = [0, *sample.loss_mask[:-1]]
        return super().row(sample, part)


class TestRetokenising(TestRight):
    def row(self, sample: Any, part: int) -> LossRow:
        tokenizer = kit_tokenizer()
        response = tokenizer.encode(tokenizer.decode(sample.response_ids))
        pad = [0] * len(response)
        sample.tokens = [*sample.prompt_ids, *response]
        sample.loss_mask = [*sample.loss_mask, *pad][: len(response)]
        sample.rollout_log_probs = [*sample.rollout_log_probs, *pad][: len(response)]
        return super().row(sample, part)


class TestPositionalGroups(TestRight):
    """Rows that train nothing are left out of the flat list, which is then cut into groups."""

    def rows(self, groups: Sequence[CannedGroup]) -> Any:
        samples = [sample for group in groups for sample in group.samples]
        flat = [sample for sample in samples if not sample.remove_sample]
        for start in range(0, len(flat), MEMBERS):  # segments of one episode count as several
            chunk = flat[start : start + MEMBERS]
            values = group_advantages("grpo", [sample.reward for sample in chunk])
            for sample, value in zip(chunk, values, strict=True):
                sample.advantage = value
        return super().rows(groups)


class TestFailedCountAsZero(TestRight):
    """A failed episode is a reward of 0 in its group's mean."""

    def rows(self, groups: Sequence[CannedGroup]) -> Any:
        for group in groups:
            rewards = [sample.reward or 0.0 for sample in group.samples]
            values = group_advantages("grpo", rewards)
            for sample, value in zip(group.samples, values, strict=True):
                sample.advantage = 0.0 if sample.remove_sample else value
        return super().rows(groups)


class TestObservationsTrained(TestRight):
    def row(self, sample: Any, part: int) -> LossRow:
        if not sample.remove_sample:
            sample.loss_mask = [1] * sample.response_length
        return super().row(sample, part)


class TestObservationsHaveLogprobs(TestRight):
    def row(self, sample: Any, part: int) -> LossRow:
        sample.rollout_log_probs = [value or -1.25 for value in sample.rollout_log_probs]
        return super().row(sample, part)


class TestAdvantagesShifted(TestRight):
    def rows(self, groups: Sequence[CannedGroup]) -> Any:
        samples = [sample for group in groups for sample in group.samples]
        values = [sample.advantage for sample in samples]
        for sample, value in zip(samples, [values[-1], *values[:-1]], strict=True):
            sample.advantage = value
        return super().rows(groups)


class TestLastTokenLost(TestRight):
    def row(self, sample: Any, part: int) -> LossRow:
        row = super().row(sample, part)
        return replace(row, tokens=row.tokens[:-1], mask=row.mask[:-1], logprobs=row.logprobs[:-1])


class TestFirstTokenDoubled(TestRight):
    """A tokenizer that puts its beginning-of-text token before a prompt that has one."""

    def row(self, sample: Any, part: int) -> LossRow:
        row = super().row(sample, part)
        return replace(row, tokens=(row.tokens[0], *row.tokens))


class TestLogprobsShifted(TestRight):
    def row(self, sample: Any, part: int) -> LossRow:
        sample.rollout_log_probs = [0.0, *sample.rollout_log_probs[:-1]]
        return super().row(sample, part)


class TestRewardsNormalised(TestRight):
    def row(self, sample: Any, part: int) -> LossRow:
        row = super().row(sample, part)
        return replace(row, reward=row.advantage)


class TestFailedAreTrained(TestRight):
    def row(self, sample: Any, part: int) -> LossRow:
        sample.loss_mask = [int(value != 0.0) for value in sample.rollout_log_probs]
        return super().row(sample, part)


class TestFailedAreDropped(TestRight):
    def rows(self, groups: Sequence[CannedGroup]) -> Any:
        return [row for row in super().rows(groups).rows if row.trained]


class TestRowsDoubled(TestRight):
    def rows(self, groups: Sequence[CannedGroup]) -> Any:
        rows = super().rows(groups).rows
        return [*rows, rows[5]]


class TestMeanOverSequences(TestRight):
    """Says that it takes the mean over tokens, and takes it over sequences."""

    def rows(self, groups: Sequence[CannedGroup]) -> LossReading:
        reading = super().rows(groups)
        trained = sum(bool(row.trained) for row in reading.rows)
        rows = [
            replace(row, weights=tuple(m / (max(row.trained, 1) * trained) for m in row.mask))
            for row in reading.rows
        ]
        return replace(reading, rows=tuple(rows))


class TestLaterSegmentsLost(TestRight):
    def rows(self, groups: Sequence[CannedGroup]) -> Any:
        return [row for row in super().rows(groups).rows if row.part == 0]


class TestSegmentsVote(TestRight):
    """Every segment counts as an episode of its own in the group's mean."""

    def rows(self, groups: Sequence[CannedGroup]) -> Any:
        for group in groups:
            valid = [sample for sample in group.samples if not sample.remove_sample]
            values = group_advantages("grpo", [sample.reward for sample in valid])
            for sample, value in zip(valid, values, strict=True):
                sample.advantage = value
        return super().rows(groups)


class TestSegmentsNotRefused(TestRight):
    """Says that it takes no segments, and takes them."""

    takes_segments = False
