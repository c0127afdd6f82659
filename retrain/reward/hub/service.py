"""`Service`: a rule of the hub that asks a server; made once from its parameters."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from retrain.connections import load_aiohttp
from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.service_breaker import BreakerState, CircuitBreaker
from retrain.reward.hub.service_client import ServiceClient
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure
from retrain.reward.hub.service_loops import PerLoop
from retrain.reward.hub.service_options import ServiceSettings, make_address
from retrain.reward.hub.service_tally import Tally

_STATES = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 0.5, BreakerState.OPEN: 1.0}


class Desk(Protocol):
    """What a service keeps for one event loop."""

    @property
    def client(self) -> ServiceClient:
        """Its connections."""


D = TypeVar("D", bound=Desk)


class Service(ABC, Generic[D]):
    """Scores cases over HTTP, from any event loop; each has connections of its own.

    Attributes:
        reward: The reward's name.
        takes: The class of its parameters.
        tally: What was counted.
        breaker: Whether the server is asked.
    """

    reward: ClassVar[str]
    takes: ClassVar[type[ServiceSettings]]

    def __init__(self, settings: ServiceSettings) -> None:
        """Take the settings; nothing is opened before the first case.

        Raises:
            ConfigError: A bound is too small, the URL is none, or a variable is not set.
            MissingDependency: aiohttp is not installed.
        """
        self.tally = Tally()
        self.address = make_address(
            self.reward,
            settings.endpoint(),
            api_key_env=settings.api_key_env,
            headers_env=settings.headers_env,
        )
        self.bounds = settings.check(self.reward)
        what = f"{self.reward}: POST {self.address.shown}"
        self.breaker = CircuitBreaker(what, settings.breaker_failures, settings.breaker_seconds)
        load_aiohttp("rewards over HTTP")
        self.desks: PerLoop[D] = PerLoop(self._new_desk, lambda desk: desk.client.close())

    async def __call__(self, case: Case) -> float:
        """Score one case.

        Raises:
            RewardFailure: There is no score; a `ServiceFailure` where the case is not the reason.
        """
        self.tally.add("calls")
        try:
            return await self._score(case)
        except RewardFailure as failure:
            kind = failure.kind if isinstance(failure, ServiceFailure) else "case"
            self.tally.add("failures")
            self.tally.add(f"failures/{kind}")
            raise

    def measured(self) -> dict[str, float]:
        """What was counted since the last call, by name; `breaker` is 1 while it is open."""
        return {**self.tally.take(), "breaker": _STATES[self.breaker.state]}

    def summary(self) -> str:
        """What was counted in all, in a line."""
        totals = self.tally.totals()
        return ", ".join(f"{name} {total:.6g}" for name, total in sorted(totals.items()))

    def close(self) -> None:
        """Close the connections, from any thread; a later case opens new ones."""
        self.desks.close()

    async def aclose(self) -> None:
        """Close the connections of the running loop, and wait until they are."""
        desk = self.desks.take_here()
        if desk is not None:
            await desk.client.aclose()

    @abstractmethod
    async def _score(self, case: Case) -> float:
        """The score of a case."""

    @abstractmethod
    def _desk(self, client: ServiceClient) -> D:
        """What is kept for the running loop."""

    def _new_desk(self) -> D:
        client = ServiceClient(self.reward, self.address, self.bounds, self.breaker, self.tally)
        return self._desk(client)

    def to_json(self, value: Any) -> bytes:
        """A request's body.

        Raises:
            ServiceFailure: Something in it is no JSON.
        """
        try:
            return json.dumps(value, allow_nan=False).encode("ascii")
        except (TypeError, ValueError, RecursionError) as error:
            raise ServiceFailure(
                f"{self.reward}: the case cannot be sent as JSON: {error}",
                kind=FaultKind.UNSENDABLE,
            ) from error
