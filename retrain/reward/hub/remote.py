"""`remote`: a score from a server of your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retrain.errors import ConfigError, RewardFailure
from retrain.reward.hub.cases import Case, Compat
from retrain.reward.hub.remote_batches import Batches, Send
from retrain.reward.hub.remote_protocol import item_of, read_score, read_scores, slime_item_of
from retrain.reward.hub.service import Service
from retrain.reward.hub.service_client import ServiceClient
from retrain.reward.hub.service_faults import ServiceFailure
from retrain.reward.hub.service_options import Bounds, at_least, make_address


@dataclass(frozen=True, slots=True)
class RemoteDesk:
    """What `remote` keeps for one event loop.

    Attributes:
        client: The connections.
        batches: The cases that wait to be sent.
    """

    client: ServiceClient
    batches: Batches


class Remote(Service[RemoteDesk]):
    """Asks a server for scores.

    With `batch_size: 1` it posts `{"prompt", "response", "label", "metadata"}` and reads a number,
    or an object with one under `reward_key`. With more it posts `{"items": […]}` and reads a list
    of those, bare or under `scores`, one for each item in order.
    """

    def __init__(
        self,
        *,
        url: str,
        compat: Compat | None = None,
        reward_key: str | None = None,
        batch_size: int = 1,
        max_delay: float = 0.01,
        api_key_env: str | None = None,
        headers_env: Sequence[str] = (),
        concurrency: int = 32,
        timeout: float = 55.0,
        attempt_timeout: float = 20.0,
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
            url: Where requests are posted to.
            compat: "slime" posts `{"prompt", "response", "label"}`, one case a request, as slime's
                `remote_rm` does.
            reward_key: Where the number stands in an object; None for "score", in slime's mode
                "reward".
            batch_size: Most cases in one request.
            max_delay: Seconds for which a batch waits to be full.
            api_key_env: The environment variable with a key, sent as a bearer token.
            headers_env: `HEADER: VARIABLE` of headers that get an environment variable's value.
            concurrency: Most requests at once.
            timeout: Seconds for one score, its retries included.
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
            MissingDependency: aiohttp is not installed.
        """
        address = make_address("remote", url, api_key_env=api_key_env, headers_env=headers_env)
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
        super().__init__("remote", address, bounds)
        at_least("remote: batch_size", batch_size, 1)
        at_least("remote: max_delay", max_delay, 0)
        if compat == "slime" and batch_size > 1:
            raise ConfigError("remote: batch_size: slime's protocol has one case a request")
        self._compat = compat
        self._key = reward_key or ("reward" if compat == "slime" else "score")
        self._size = batch_size
        self._delay = max_delay if batch_size > 1 else 0.0

    async def _score(self, case: Case) -> float:
        item = slime_item_of(case) if self._compat == "slime" else item_of(case)
        return await self.desks.here().batches.score(self.to_json(item))

    def _desk(self, client: ServiceClient) -> RemoteDesk:
        send = self._sender(client)
        return RemoteDesk(client, Batches(self._size, self._delay, client.room, send))

    def _sender(self, client: ServiceClient) -> Send:
        def outcome(score: Any) -> float | ServiceFailure:
            try:
                return read_score(score, self._key)
            except RewardFailure as failure:
                return client.wrong(str(failure))

        async def send(items: Sequence[bytes]) -> Sequence[float | ServiceFailure]:
            if self._size == 1:
                return [outcome(await client.ask(items[0]))]
            reply = await client.ask(b'{"items": [%b]}' % b", ".join(items))
            try:
                return [outcome(score) for score in read_scores(reply, len(items))]
            except RewardFailure as failure:
                raise client.wrong(str(failure)) from None

        return send
