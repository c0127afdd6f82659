"""The services of the hub, `remote` and `llm_judge`, as rewards over episodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, get_type_hints

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
        kind = service_class(name)
        self.service = kind(kind.takes(**params))
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


def service_class(name: str) -> type[Service[Any]]:
    """The class of a service.

    Args:
        name: Its name, with or without `boxed_`.
    """
    target = f"{__package__}.{SERVICES[plain_name(name)]}"
    return cast("type[Service[Any]]", load_object(target, f"reward {name!r}"))


def service_reward(name: str) -> Callable[..., Any]:
    """A function of the service's parameters that makes a `ServiceReward`.

    Args:
        name: The service's name, with or without `boxed_`.
    """
    takes = service_class(name).takes

    def make(**params: Any) -> Any:
        return ServiceReward(name, params)

    described: Any = make
    described.__signature__ = inspect.Signature([*inspect.signature(takes).parameters.values()])
    described.__annotations__ = {**get_type_hints(takes), "return": Callable[..., Any]}
    described.__name__ = described.__qualname__ = name
    return make
