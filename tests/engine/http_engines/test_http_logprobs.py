from __future__ import annotations

import pytest

from retrain.engine import SamplingParams
from retrain.engine.http_logprobs import LogprobMode, logprob_mode, why_not_exact

RAW, TEMPERED = LogprobMode.RAW, LogprobMode.TEMPERED


@pytest.mark.parametrize(
    ("cool", "hot", "mode"), [(-0.3, -0.3, RAW), (-0.3, -0.301, RAW), (-0.3, -11.5, TEMPERED)]
)
def test_tempered_logprobs_fall_with_the_heat(cool: float, hot: float, mode: LogprobMode) -> None:
    assert logprob_mode(cool, hot) is mode


@pytest.mark.parametrize("truncated", [True, False])
@pytest.mark.parametrize("mode", [RAW, TEMPERED])
def test_greedy_and_plain_sampling_are_exact_everywhere(mode: LogprobMode, truncated: bool) -> None:
    for params in (SamplingParams(1), SamplingParams(1, temperature=0, top_k=3)):
        assert why_not_exact(mode, params, truncated=truncated) is None


def test_the_reason_names_the_setting() -> None:
    warm = SamplingParams(1, temperature=0.7)
    assert "0.7" in (why_not_exact(RAW, warm, truncated=False) or "")
    assert why_not_exact(TEMPERED, warm, truncated=True) is None
    cut = SamplingParams(1, top_p=0.9)
    assert "top_p 0.9" in (why_not_exact(TEMPERED, cut, truncated=True) or "")
    assert why_not_exact(TEMPERED, cut, truncated=False) is None
    assert why_not_exact(RAW, cut, truncated=True) is None
