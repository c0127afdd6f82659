"""`ChatEndpoint`: an OpenAI-compatible chat model that many games share, with one budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from retrain.errors import EnvironmentFailure, RewardFailure
from retrain.pausing import standing_still
from retrain.reward.hub.judge_chat import Chat, read_chat
from retrain.reward.hub.judge_cost import Costs
from retrain.reward.hub.service_breaker import CircuitBreaker
from retrain.reward.hub.service_client import ServiceClient
from retrain.reward.hub.service_loops import PerLoop
from retrain.reward.hub.service_options import Bounds, make_address
from retrain.reward.hub.service_tally import Tally

WHO = "partner_config"


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Whom to ask, and what it may cost.

    Attributes:
        base_url: What `/chat/completions` is added to, such as "https://api.openai.com/v1".
        model: The model's name there.
        api_key_env: The environment variable with the key.
        temperature: How it samples.
        max_tokens: The longest turn.
        request: Further fields of the request; null takes one of ours away.
        price_in: Price of a million prompt tokens, in any currency.
        price_out: Price of a million tokens that it writes.
        budget: Most that it may cost in one process, in that currency; what comes then fails.
        budget_tokens: Most tokens that it may read and write in one process.
        concurrency: Most requests at once.
        timeout: Seconds for one turn, its retries included.
        attempt_timeout: Seconds for one request.
        retries: How often a request is sent again after an error that may pass.
        backoff: Seconds before the first retry.
    """

    base_url: str
    model: str
    api_key_env: str | None = None
    temperature: float = 0.7
    max_tokens: int = 200
    request: Mapping[str, Any] = field(default_factory=dict)
    price_in: float | None = None
    price_out: float | None = None
    budget: float | None = None
    budget_tokens: int | None = None
    concurrency: int = 32
    timeout: float = 55.0
    attempt_timeout: float = 30.0
    retries: int = 3
    backoff: float = 0.5


class ChatEndpoint:
    """Asks for turns; a failure is the environment's, and never a turn.

    Args:
        settings: Whom to ask.

    Raises:
        ConfigError: Something cannot be; the message names it.
        MissingDependency: aiohttp is not installed.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        url = f"{settings.base_url.rstrip('/')}/chat/completions"
        self._address = make_address(WHO, url, api_key_env=settings.api_key_env, headers_env=())
        self._bounds = Bounds(
            concurrency=settings.concurrency,
            timeout=settings.timeout,
            attempt_timeout=settings.attempt_timeout,
            retries=settings.retries,
            backoff=settings.backoff,
        ).check(WHO)
        self._costs = Costs(
            settings.price_in, settings.price_out, settings.budget, settings.budget_tokens, WHO
        )
        self._chat = Chat(
            settings.model, settings.temperature, settings.max_tokens, settings.request
        )
        what = f"{WHO}: POST {self._address.shown}"
        breaker = CircuitBreaker(what, self._bounds.breaker_failures, self._bounds.breaker_seconds)
        self.tally = Tally()
        self._clients = PerLoop(
            lambda: ServiceClient(WHO, self._address, self._bounds, breaker, self.tally),
            lambda client: client.close(),
        )

    async def ask(self, messages: Sequence[Mapping[str, str]], tally: Tally) -> str:
        """The next turn of a conversation.

        Args:
            messages: The conversation so far.
            tally: Counts the tokens and the cost once more, for the game that asks.

        Raises:
            EnvironmentFailure: There is none: the retries or the budget are used up.
        """
        client = self._clients.here()
        body = json.dumps(self._chat.body([dict(message) for message in messages])).encode()
        async with standing_still():
            await client.room.acquire()
        try:
            self._costs.check(self.tally)
            reply = await client.ask(body)
            usage = reply.get("usage") if isinstance(reply, dict) else None
            self._costs.count(usage, self.tally)
            self._costs.count(usage, tally)
            return read_chat(reply)
        except RewardFailure as failure:
            raise EnvironmentFailure(f"the partner gave no turn: {failure}") from failure
        finally:
            client.room.release()


def shared_endpoint(settings: EndpointSettings) -> ChatEndpoint:
    """The process's one endpoint of these settings: its connections and its budget are shared.

    Raises:
        ConfigError: Something cannot be; the message names it.
    """
    return _endpoint(json.dumps(asdict(settings), sort_keys=True))


@cache
def _endpoint(settings: str) -> ChatEndpoint:
    return ChatEndpoint(EndpointSettings(**json.loads(settings)))
