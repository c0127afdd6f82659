import math

import pytest

torch = pytest.importorskip("torch")

from retrain.engine.base import SamplingParams  # noqa: E402
from retrain.engine.transformers_sampling import sample, uniform  # noqa: E402

DRAWS = 20_000
LOGITS = (2.0, 1.0, 0.5, 0.0, -1.0, -1.0, -3.0, -30.0)
ALL = range(len(LOGITS))
PLAIN = SamplingParams(1)


def draw(params, count=DRAWS, logits=LOGITS, seed=11):
    rows = torch.tensor(logits).repeat(count, 1)
    return sample(rows, [params] * count, [uniform(seed, n) for n in range(count)])


def probabilities(temperature=1.0, keep=ALL):
    weights = [math.exp(v / temperature) if n in keep else 0.0 for n, v in enumerate(LOGITS)]
    return [weight / sum(weights) for weight in weights]


def chi_square(ids, expected):
    """Pearson's statistic over the tokens that are expected at least five times."""
    total = 0.0
    for token, probability in enumerate(expected):
        mean = probability * len(ids)
        if mean >= 5:
            total += (ids.count(token) - mean) ** 2 / mean
    return total


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_follow_the_tempered_distribution(temperature):
    ids, _ = draw(SamplingParams(1, temperature=temperature))
    # 24.3 is the 0.999 quantile of chi-square with 7 degrees of freedom
    assert chi_square(ids, probabilities(temperature)) < 24.3


def test_truncated_tokens_follow_the_renormalised_distribution():
    ids, _ = draw(SamplingParams(1, top_k=3))
    assert set(ids) == {0, 1, 2}
    assert chi_square(ids, probabilities(keep=range(3))) < 13.8  # 2 degrees of freedom


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    first, second = probabilities()[:2]
    assert set(draw(SamplingParams(1, top_p=first - 0.01))[0]) == {0}
    assert set(draw(SamplingParams(1, top_p=first + 0.01))[0]) == {0, 1}
    assert set(draw(SamplingParams(1, top_p=first + second + 0.01))[0]) == {0, 1, 2}


def test_top_p_is_taken_of_what_top_k_left():
    share = probabilities(keep=range(2))[0]
    assert share > probabilities()[0] + 0.05
    assert set(draw(SamplingParams(1, top_k=2, top_p=share - 0.01))[0]) == {0}


def test_top_k_breaks_ties_in_order_of_the_vocabulary():
    assert set(draw(SamplingParams(1, top_k=5))[0]) == {0, 1, 2, 3, 4}


def test_logprobs_are_tempered_and_untruncated():
    ids, logprobs = draw(SamplingParams(1, temperature=0.7, top_k=2, top_p=0.9), count=50)
    expected = probabilities(0.7)
    assert logprobs == pytest.approx([math.log(expected[token]) for token in ids], abs=1e-5)


def test_temperature_zero_is_greedy_with_untempered_logprobs():
    ids, logprobs = draw(SamplingParams(1, temperature=0), count=20)
    assert set(ids) == {0}
    assert logprobs == pytest.approx([math.log(probabilities()[0])] * 20, abs=1e-6)


def test_rows_of_one_batch_keep_their_own_parameters():
    params = [PLAIN, SamplingParams(1, temperature=0), SamplingParams(1, top_k=1), PLAIN]
    ids, logprobs = sample(torch.tensor([LOGITS] * 4), params, [0.999999] * 4)
    assert ids[1:3] == [0, 0]
    assert ids[0] == ids[3] != 0
    alone, alone_logprob = sample(torch.tensor([LOGITS]), [PLAIN], [0.999999])
    assert (ids[0], logprobs[0]) == (alone[0], pytest.approx(alone_logprob[0], abs=1e-6))


@pytest.mark.parametrize("position", [0.0, math.nextafter(1.0, 0.0)])
def test_the_ends_of_the_unit_interval_draw_tokens_that_can_be_drawn(position):
    logits = torch.tensor([[-math.inf, 0.0, 1.0, -math.inf]])
    ids, logprobs = sample(logits, [PLAIN], [position])
    assert ids == ([1] if position == 0.0 else [2])
    assert math.isfinite(logprobs[0])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused(bad):
    with pytest.raises(FloatingPointError, match="not finite"):
        sample(torch.tensor([[0.0, bad, 1.0]]), [PLAIN], [0.5])


def test_uniforms_depend_on_seed_and_position_and_fill_the_interval():
    values = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert all(0.0 <= value < 1.0 for value in values)
    assert len(set(values)) == len(values)
    tenths = [sum(int(value * 10) == tenth for value in values) for tenth in range(10)]
    assert sum((count - 1000) ** 2 / 1000 for count in tenths) < 27.9  # 9 degrees of freedom
    assert uniform(2**63 - 1, 5) == uniform(2**63 - 1, 5)


def test_uniforms_of_neighbouring_seeds_and_positions_are_uncorrelated():
    for step in ((1, 0), (0, 1), (1, 1)):
        pairs = [
            (uniform(s, p) - 0.5, uniform(s + step[0], p + step[1]) - 0.5)
            for s in range(100)
            for p in range(100)
        ]
        assert abs(sum(a * b for a, b in pairs) / len(pairs)) < 4 / 12 / 100
