"""The parameters of `llm_judge`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retrain.reward.hub.judge_rubric import RUBRIC, SYSTEM
from retrain.reward.hub.judge_score import Form
from retrain.reward.hub.service_options import ServiceSettings


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JudgeSettings(ServiceSettings):
    """Which model is asked, what it is asked, and what it may cost.

    Attributes:
        base_url: What `/chat/completions` is added to, such as "https://api.openai.com/v1".
        model: The model's name there.
        rubric: See `Rubric`.
        system: What the judge is.
        answer: How it writes its score; see `Form`.
        score_key: Where the score stands in a JSON object.
        pattern: Finds the score (`answer: pattern`).
        lowest: The score that becomes 0.
        highest: The score that becomes 1.
        reasks: How often a judge that gave no score is asked for it again.
        temperature: Of the judge.
        max_tokens: The longest reply.
        request: Further fields of the request; null takes one of ours away.
        most_characters: The longest question.
        cache: Whether scores are kept, and equal questions asked once.
        cache_file: A file that keeps scores beyond the run.
        price_in: Price of a million prompt tokens.
        price_out: Price of a million tokens that the judge writes.
        budget: Most that it may cost; what comes then fails.
        budget_tokens: Most tokens that it may read and write.
        attempt_timeout: Seconds for one request: a judge writes for longer than a scorer.
    """

    base_url: str
    model: str
    rubric: str = RUBRIC
    system: str = SYSTEM
    answer: Form = "brackets"
    score_key: str = "score"
    pattern: str | None = None
    lowest: float = 1.0
    highest: float = 10.0
    reasks: int = 1
    temperature: float = 0.0
    max_tokens: int = 1024
    request: Mapping[str, Any] | None = None
    most_characters: int = 200_000
    cache: bool = True
    cache_file: str | None = None
    price_in: float | None = None
    price_out: float | None = None
    budget: float | None = None
    budget_tokens: int | None = None
    attempt_timeout: float = 30.0

    def endpoint(self) -> str:
        """The URL that requests are posted to."""
        return f"{self.base_url.rstrip('/')}/chat/completions"
