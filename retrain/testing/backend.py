"""`BackendSuite`: does a backend train on exactly what was played?"""

from __future__ import annotations

import pytest

from retrain.parity.weights import follows_its_rule
from retrain.testing.backend_comparing import (
    compare_advantages,
    compare_counts,
    compare_ends,
    compare_logprobs,
    compare_masks,
    compare_tokens,
    same_number,
)
from retrain.testing.backend_hooks import BackendHooks
from retrain.testing.backend_rows import Entered, row_name
from retrain.testing.canned.cases import BY_NAME, NAMES, ODD, REWRITING
from retrain.testing.wording import require

_UNEVEN = tuple(name for name in NAMES if BY_NAME[name].uneven)
_EVEN = tuple(name for name in NAMES if name not in _UNEVEN)
_PLAIN = tuple(name for name in NAMES if name not in ODD)
_SEGMENTED = tuple(case.name for case in REWRITING)


class BackendSuite(BackendHooks):
    """Compares what enters a backend's loss with what the core made of the canned episodes.

    Subclass it and define `rows`; `BackendHooks` says what else can be told. Every test takes one
    aspect of a row; its parameter is the canned case that the row comes from.
    """

    @pytest.mark.parametrize("case", NAMES)
    def test_every_sample_has_exactly_one_row(self, entered: Entered, case: str) -> None:
        """No sample is lost, doubled or made up; one that trains nothing keeps its row."""
        compare_counts(entered, case)

    @pytest.mark.parametrize("case", _PLAIN)
    def test_tokens_are_those_of_the_engine(self, entered: Entered, case: str) -> None:
        """Prompt and response are what the engine saw and wrote, as far as the row goes."""
        compare_tokens(entered, case)

    @pytest.mark.parametrize("case", ODD)
    def test_sampled_tokens_are_not_encoded_again(self, entered: Entered, case: str) -> None:
        """Tokens that their own text would not be encoded to come through."""
        compare_tokens(entered, case)

    @pytest.mark.parametrize("case", NAMES)
    def test_the_last_token_is_kept(self, entered: Entered, case: str) -> None:
        """A stop token that the model sampled is trained on like any other token."""
        compare_ends(entered, case)

    @pytest.mark.parametrize("case", NAMES)
    def test_only_sampled_tokens_are_trained(self, entered: Entered, case: str) -> None:
        """The mask is 0 on what the environment said, and on all of an episode that failed."""
        compare_masks(entered, case, wanted=0)

    @pytest.mark.parametrize("case", NAMES)
    def test_every_sampled_token_is_trained(self, entered: Entered, case: str) -> None:
        """The mask is 1 on what the model sampled."""
        compare_masks(entered, case, wanted=1)

    @pytest.mark.parametrize("case", NAMES)
    def test_logprobs_stand_on_their_tokens(self, entered: Entered, case: str) -> None:
        """The importance ratio is taken against the logprob that the engine gave for this token."""
        compare_logprobs(entered, case, sampled=True)

    @pytest.mark.parametrize("case", NAMES)
    def test_observations_have_no_logprob(self, entered: Entered, case: str) -> None:
        """Nobody sampled what the environment said: its logprob is 0.0."""
        compare_logprobs(entered, case, sampled=False)

    @pytest.mark.parametrize("case", _EVEN)
    def test_advantages_stand_on_their_rows(self, entered: Entered, case: str) -> None:
        """Each row has the advantage of its own episode."""
        compare_advantages(entered, case)

    @pytest.mark.parametrize("case", _UNEVEN)
    def test_groups_are_not_found_by_position(self, entered: Entered, case: str) -> None:
        """A slot that trains nothing is no part of its group's mean, and shifts no other group."""
        compare_advantages(entered, case)

    @pytest.mark.parametrize("case", NAMES)
    def test_rewards_are_raw(self, entered: Entered, case: str) -> None:
        """The reward of a row that trains something is its episode's own."""
        for then, now in entered.pairs(case):
            if then.reward is not None:
                same_number(then, case, "reward", then.reward, now.reward)

    @pytest.mark.parametrize("case", _UNEVEN)
    def test_failed_episodes_train_nothing(self, entered: Entered, case: str) -> None:
        """A masked row has mask 0 and advantage 0: otherwise a KL term would still train it."""
        for then, now in entered.pairs(case):
            if not then.trained:
                came = f"{now.trained} trained tokens, advantage {now.advantage:g}"
                require(
                    not now.trained and now.advantage == 0.0,
                    f"{row_name(then, case)} trains although its episode does not count",
                    expected="no trained token, advantage 0",
                    came=came,
                )

    def test_loss_weights_follow_the_aggregation(self, entered: Entered) -> None:
        """Every token weighs what the aggregation says for its optimizer step."""
        reading = entered.reading
        if reading is None:
            pytest.skip("rows gives no LossReading: nobody says how token losses are aggregated")
        for row in reading.rows:
            weights, tokens = len(row.weights), len(row.mask)
            require(
                weights == tokens,
                f"sample {row.index} has another number of weights than of response tokens",
                expected=tokens,
                came=weights,
            )
        require(
            follows_its_rule(reading),
            "the weights of the tokens are not those of the aggregation",
            expected=f"the weights of {reading.aggregation!r}, step by step",
            came=sorted({weight for row in reading.rows for weight in row.weights})[-5:],
        )

    @pytest.mark.parametrize("case", _SEGMENTED)
    def test_every_segment_is_trained_once(self, segments: Entered | None, case: str) -> None:
        """Each segment of a rewritten history has its row, with its episode's advantage."""
        if segments is None:
            return
        compare_counts(segments, case)
        compare_tokens(segments, case)
        compare_ends(segments, case)
        compare_masks(segments, case, wanted=0)
        compare_masks(segments, case, wanted=1)
        compare_logprobs(segments, case, sampled=True)
        compare_advantages(segments, case)
