"""`llm_judge`: a score from a language model behind an OpenAI-compatible chat endpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from retrain.errors import ConfigError, RewardFailure
from retrain.reward.hub.cases import Case, shown
from retrain.reward.hub.judge_cache import ScoreCache, key_of
from retrain.reward.hub.judge_chat import Chat, read_chat
from retrain.reward.hub.judge_cost import Costs
from retrain.reward.hub.judge_rubric import Rubric
from retrain.reward.hub.judge_score import ScoreReader
from retrain.reward.hub.judge_settings import JudgeSettings
from retrain.reward.hub.service import Service
from retrain.reward.hub.service_client import ServiceClient
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure
from retrain.reward.hub.service_loops import SharedWork
from retrain.reward.hub.service_options import at_least


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

    reward = "llm_judge"
    takes = JudgeSettings

    def __init__(self, settings: JudgeSettings) -> None:
        """Take the settings.

        Raises:
            ConfigError: Something cannot be; the message names it.
            DataError: The cache's file is something else.
            MissingDependency: aiohttp is not installed.
        """
        super().__init__(settings)
        for name, least in (("reasks", 0), ("max_tokens", 1), ("temperature", 0)):
            at_least(f"llm_judge: {name}", getattr(settings, name), least)
        lowest, highest = self._range = settings.lowest, settings.highest
        if not lowest < highest:
            raise ConfigError(f"llm_judge: lowest is {lowest:g} and highest {highest:g}")
        file = settings.cache_file
        if file is not None and not settings.cache:
            raise ConfigError("llm_judge: cache_file: needs cache: true")
        self._reader = ScoreReader(settings.answer, settings.score_key, settings.pattern)
        self._rubric = Rubric(
            settings.rubric, settings.system, lowest, highest, self._reader.asked()
        )
        self._chat = Chat(
            settings.model, settings.temperature, settings.max_tokens, settings.request or {}
        )
        self._costs = Costs(
            settings.price_in, settings.price_out, settings.budget, settings.budget_tokens
        )
        self._reasks = settings.reasks
        self._most_characters = settings.most_characters
        self._cache = ScoreCache(Path(file) if file else None) if settings.cache else None

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
