"""`Partner`: who sits opposite the trained seat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from retrain.errors import EnvironmentFailure
from retrain.registry import Registry
from retrain.signatures import check_config

from .board import View
from .messages import Said


class Partner(ABC):
    """One game's partner; a new one is made for every episode.

    Attributes:
        replayable: Whether the same seed and the same words get the same answers.
    """

    replayable: bool = False

    @abstractmethod
    async def begin(self, view: View, seed: int) -> None:
        """Take a seat.

        Args:
            view: What the partner sees of the scores.
            seed: Seeds whatever it draws; the same for all episodes of a group.
        """

    @abstractmethod
    async def answer(self, heard: Said) -> str:
        """Take a turn, tag and all.

        Args:
            heard: What the other player just said. Only legal turns are heard.
        """

    def counted(self) -> dict[str, float]:
        """What the game's partner has cost so far, by name; it becomes part of the turn's info."""
        return {}

    async def mend(self, fault: str) -> str:
        """Take the turn again, which broke a rule.

        Args:
            fault: Which one.

        Raises:
            EnvironmentFailure: Unless overridden: a partner that knows the rules breaks none.
        """
        raise EnvironmentFailure(f"{type(self).__name__} broke a rule: {fault}")


PARTNERS: Registry[Callable[..., Partner]] = Registry("partner")
PARTNERS.add_lazy("scripted", f"{__package__}.scripted_partner:ScriptedShyPartner")
PARTNERS.add_lazy("endpoint", f"{__package__}.endpoint_partner:ShyPartner")


def make_partner(name: str, config: Mapping[str, Any]) -> Partner:
    """Make a partner for one game.

    Args:
        name: "scripted", "endpoint" or an import path `package.module:Class`.
        config: Its keyword arguments.

    Raises:
        ConfigError: There is none of that name, or it takes no such argument.
    """
    maker = PARTNERS.get(name)
    return maker(**check_config(maker, config, "environment.env_specific_config.partner_config"))
