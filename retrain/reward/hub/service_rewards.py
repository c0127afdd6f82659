"""The services of the hub, `remote` and `llm_judge`, as rewards over episodes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from retrain.registry import load_object
from retrain.reward.hub.boxed import last_boxed
from retrain.reward.hub.cases import Case, response_of
from retrain.reward.hub.catalogue import BOXED, SERVICES, plain_name
from retrain.reward.hub.episodes import case_of
from retrain.types import Trajectory

if TYPE_CHECKING:
    from retrain.reward.hub.service import Service


class ServiceReward:
    """A reward over episodes that a service gives.

    Attributes:
        service: The service.
    """

    def __init__(self, name: str, params: Mapping[str, Any]) -> None:
        """Make the service.

        Args:
            name: Its name, with or without `boxed_`.
            params: Its parameters.

        Raises:
            ConfigError: One of them cannot be.
            MissingDependency: A package is not installed.
        """
        self.__name__ = name
        self.service = service_class(name)(**params)
        self._boxed = name.startswith(BOXED) and params.get("compat") != "slime"

    async def __call__(self, trajectory: Trajectory) -> float:
        """The score of an episode."""
        return await self.score(case_of(trajectory))

    async def score(self, case: Case) -> float:
        """The score of a case.

        Raises:
            ServiceFailure: There is none.
        """
        if self._boxed:
            case = replace(case, response=last_boxed(response_of(case)) or "")
        return await self.service(case)

    def measured(self) -> dict[str, float]:
        """What the service counted since the last call."""
        return self.service.measured()

    def summary(self) -> str:
        """What the service counted in all."""
        return self.service.summary()

    def close(self) -> None:
        """Close the service's connections, from any thread."""
        self.service.close()


def service_class(name: str) -> Callable[..., Service[Any]]:
    """The class of a service, which takes its parameters by name.

    Args:
        name: Its name, with or without `boxed_`.
    """
    target = f"{__package__}.{SERVICES[plain_name(name)]}"
    return cast("Callable[..., Service[Any]]", load_object(target, f"reward {name!r}"))


def service_reward(name: str) -> Callable[..., Any]:
    """A function of the service's parameters that makes a `ServiceReward`.

    Args:
        name: The service's name, with or without `boxed_`.
    """
    made = service_class(name)
    initialise: Any = made.__init__

    @functools.wraps(initialise)
    def make(**params: Any) -> Any:
        return ServiceReward(name, params)

    described: Any = make
    parameters = list(inspect.signature(initialise).parameters.values())[1:]
    described.__signature__ = inspect.Signature(parameters)
    described.__annotations__ = {**initialise.__annotations__, "return": Callable[..., Any]}
    described.__name__ = described.__qualname__ = name
    return make
