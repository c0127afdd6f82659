"""`llm_judge`: a score from a language model behind an OpenAI-compatible chat endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrain.errors import ConfigError, RewardFailure
from retrain.reward.hub.cases import Case, shown
from retrain.reward.hub.judge_cache import ScoreCache, key_of
from retrain.reward.hub.judge_chat import Chat, read_chat
from retrain.reward.hub.judge_cost import Costs
from retrain.reward.hub.judge_rubric import RUBRIC, SYSTEM, Rubric
from retrain.reward.hub.judge_score import Form, ScoreReader
from retrain.reward.hub.service import Service
from retrain.reward.hub.service_client import ServiceClient
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure
from retrain.reward.hub.service_loops import SharedWork
from retrain.reward.hub.service_options import Bounds, at_least, make_address


@dataclass(frozen=True, slots=True)
class JudgeDesk:
    """What `llm_judge` keeps for one event loop.

    Attributes:
        client: The connections.
        running: The questions that are being asked, by their key.
    """

    client: ServiceClient
    running: dict[bytes, SharedWork[float]] = field(default_factory=dict)


class Judge(Service[JudgeDesk]):
    """Asks a model to grade a response, and gives its score from 0 to 1.

    A question that was answered before is not asked again, and one that is being asked is asked
    once. Failures are never kept. The response is fenced as data; a model can be talked into a
    better score all the same.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key_env: str | None = None,
        headers_env: Sequence[str] = (),
        rubric: str = RUBRIC,
        system: str = SYSTEM,
        answer: Form = "brackets",
        score_key: str = "score",
        pattern: str | None = None,
        lowest: float = 1.0,
        highest: float = 10.0,
        reasks: int = 1,
        temperature: float = 0.0,
        max_tokens: int = 1024,
        request: Mapping[str, Any] | None = None,
        most_characters: int = 200_000,
        cache: bool = True,
        cache_file: str | None = None,
        price_in: float | None = None,
        price_out: float | None = None,
        budget: float | None = None,
        budget_tokens: int | None = None,
        concurrency: int = 32,
        timeout: float = 55.0,
        attempt_timeout: float = 30.0,
        connect_timeout: float = 5.0,
        retries: int = 3,
        backoff: float = 0.5,
        longest_wait: float = 30.0,
        breaker_failures: int = 5,
        breaker_seconds: float = 30.0,
        most_bytes: int = 2**20,
    ) -> None:
        """Take the settings; see `Bounds` for those that are not named here.

        Args:
            base_url: What `/chat/completions` is added to, such as "https://api.openai.com/v1".
            model: The model's name there.
            api_key_env: The environment variable with the key.
            headers_env: `HEADER: VARIABLE` of headers that get an environment variable's value.
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
            concurrency: Most requests at once.
            timeout: Seconds for one answer, its retries included.
            attempt_timeout: Seconds for one request.
            connect_timeout: Seconds to wait for a connection.
            retries: How often a request is sent again after an error that may pass.
            backoff: Seconds before the first retry.
            longest_wait: Most seconds before a retry.
            breaker_failures: How many failures in a row, retries and all, end the asking.
            breaker_seconds: For how long.
            most_bytes: The longest reply.

        Raises:
            ConfigError: Something cannot be; the message names it.
            DataError: The cache's file is something else.
            MissingDependency: aiohttp is not installed.
        """
        url = f"{base_url.rstrip('/')}/chat/completions"
        address = make_address("llm_judge", url, api_key_env=api_key_env, headers_env=headers_env)
        bounds = Bounds(
            concurrency=concurrency,
            timeout=timeout,
            attempt_timeout=attempt_timeout,
            connect_timeout=connect_timeout,
            retries=retries,
            backoff=backoff,
            longest_wait=longest_wait,
            most_bytes=most_bytes,
            breaker_failures=breaker_failures,
            breaker_seconds=breaker_seconds,
        )
        super().__init__("llm_judge", address, bounds)
        at_least("llm_judge: reasks", reasks, 0)
        at_least("llm_judge: max_tokens", max_tokens, 1)
        at_least("llm_judge: temperature", temperature, 0)
        if not lowest < highest:
            raise ConfigError(f"llm_judge: lowest is {lowest:g} and highest {highest:g}")
        if cache_file is not None and not cache:
            raise ConfigError("llm_judge: cache_file: needs cache: true")
        self._reader = ScoreReader(answer, score_key, pattern)
        self._rubric = Rubric(rubric, system, lowest, highest, self._reader.asked())
        self._chat = Chat(model, temperature, max_tokens, request or {})
        self._costs = Costs(price_in, price_out, budget, budget_tokens)
        self._range = lowest, highest
        self._reasks = reasks
        self._most_characters = most_characters
        self._cache = ScoreCache(Path(cache_file) if cache_file else None) if cache else None

    def measured(self) -> dict[str, float]:
        """What was counted since the last call, and the cost so far."""
        return {**super().measured(), "cost_total": self.tally.total("cost")}

    async def _score(self, case: Case) -> float:
        question = self._rubric.question(case)
        if len(question) > self._most_characters:
            raise ServiceFailure(
                f"llm_judge: a question of {len(question):,} characters; at most "
                f"{self._most_characters:,} are asked",
                kind=FaultKind.UNSENDABLE,
            )
        lowest, highest = self._range
        return (await self._grade(question) - lowest) / (highest - lowest)

    async def _grade(self, question: str) -> float:
        messages = self._chat.messages(self._rubric.system, question)
        cache = self._cache
        if cache is None:
            return await SharedWork(lambda work: self._ask(work, messages)).result()
        reader = self._reader
        how = [reader.form, reader.key, reader.pattern, self._range, self._reasks]
        key = key_of(self.address.url, self._chat.body(messages), how)
        known = cache.get(key)
        if known is not None:
            self.tally.add("cache_hits")
            return known
        running = self.desks.here().running
        work = running.get(key)
        if work is None or not work.waiting:

            async def ask(work: SharedWork[float]) -> float:
                return await self._ask(work, messages, key)

            work = running[key] = SharedWork(ask)
        else:
            self.tally.add("cache_hits")
        try:
            return await work.result()
        finally:
            if running.get(key) is work and not work.waiting:
                del running[key]

    async def _ask(
        self, work: SharedWork[float], messages: list[dict[str, str]], key: bytes | None = None
    ) -> float:
        client = self.desks.here().client
        async with client.room:
            work.begin()
            for _ in range(self._reasks + 1):
                reply = await self._answer(client, messages)
                score, fault = await self._read(reply)
                if score is not None:
                    self._keep(key, score, reply)
                    return score
                self.tally.add("replies_without_score")
                messages = self._chat.again(messages, reply, self._range)
        raise ServiceFailure(
            f"llm_judge: POST {self.address.shown}: {fault}; it came: {shown(reply)}",
            kind=FaultKind.NO_SCORE,
        )

    async def _answer(self, client: ServiceClient, messages: list[dict[str, str]]) -> str:
        self._costs.check(self.tally)
        reply = await client.ask(self.to_json(self._chat.body(messages)))
        self._costs.count(reply.get("usage") if isinstance(reply, dict) else None, self.tally)
        try:
            return read_chat(reply)
        except RewardFailure as failure:
            raise client.wrong(str(failure)) from None

    async def _read(self, reply: str) -> tuple[float | None, str]:
        """The score in a reply, or None and what is wrong with it."""
        lowest, highest = self._range
        score = await self._reader.find(reply)
        if score is None:
            return None, "no score in the judge's reply"
        if not lowest <= score <= highest:
            return None, f"the judge's score is {score:g}, not from {lowest:g} to {highest:g}"
        return score, ""

    def _keep(self, key: bytes | None, score: float, reply: str) -> None:
        if key is None or self._cache is None:
            return
        try:
            self._cache.put(key, score, reply)
        except OSError:
            self.tally.add("cache_errors")

    def _desk(self, client: ServiceClient) -> JudgeDesk:
        return JudgeDesk(client)
