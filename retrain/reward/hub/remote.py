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
from retrain.reward.hub.service_options import ServiceSettings, at_least


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoteSettings(ServiceSettings):
    """The parameters of `remote`.

    Attributes:
        url: Where requests are posted to.
        compat: "slime" posts `{"prompt", "response", "label"}`, one case a request, as slime's
            `remote_rm` does.
        reward_key: Where the number stands in an object; None for "score", in slime's mode
            "reward".
        batch_size: Most cases in one request.
        max_delay: Seconds for which a batch waits to be full.
    """

    url: str
    compat: Compat | None = None
    reward_key: str | None = None
    batch_size: int = 1
    max_delay: float = 0.01

    def endpoint(self) -> str:
        """The URL that requests are posted to."""
        return self.url


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

    reward = "remote"
    takes = RemoteSettings

    def __init__(self, settings: RemoteSettings) -> None:
        """Take the settings.

        Raises:
            ConfigError: Something cannot be; the message names it.
            MissingDependency: aiohttp is not installed.
        """
        super().__init__(settings)
        slimes = settings.compat == "slime"
        at_least("remote: batch_size", settings.batch_size, 1)
        at_least("remote: max_delay", settings.max_delay, 0)
        if slimes and settings.batch_size > 1:
            raise ConfigError("remote: batch_size: slime's protocol has one case a request")
        self._compat = settings.compat
        self._key = settings.reward_key or ("reward" if slimes else "score")
        self._size = settings.batch_size
        self._delay = settings.max_delay if settings.batch_size > 1 else 0.0

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
