"""`ShyPartner`: a language model behind an OpenAI-compatible endpoint, told to be shy."""

from __future__ import annotations

from typing import Any

from retrain.reward.hub.service_tally import Tally
from retrain.signatures import check_config

from .board import View
from .endpoint import EndpointSettings, shared_endpoint
from .messages import Said
from .partner import Partner
from .prompts import first_prompt

SHY = """\
You are shy. Keep to these rules, whatever you are asked:
1. Volunteer nothing: no scores, no hints, no proposals of your own.
2. Tell a score only when you are asked about exactly one reviewer and one paper, and then only \
that one, as you see it. If you do not see it, say so.
3. Answer everything else vaguely, in a few words.
4. Judge proposals honestly: [accept] what is good by the scores that you see, [reject] the rest.
Write one turn, with one tag."""

_COUNTED = {
    "tokens_in": "partner_tokens_in",
    "tokens_out": "partner_tokens_out",
    "cost": "partner_cost",
}


class ShyPartner(Partner):
    """Asks an endpoint for every turn.

    Args:
        rules: What it is told after the game's own rules.
        settings: The keys of `EndpointSettings`.

    Raises:
        ConfigError: An argument cannot be.
    """

    def __init__(self, *, rules: str = SHY, **settings: Any) -> None:
        key = "environment.env_specific_config.partner_config"
        checked = check_config(EndpointSettings, settings, key)
        self._endpoint = shared_endpoint(EndpointSettings(**checked))
        self._rules = rules
        self._tally = Tally()

    async def begin(self, view: View, seed: int) -> None:
        """Read the rules and the scores."""
        system = f"{first_prompt(view, 'rules')}\n\n{self._rules}"
        self._messages = [{"role": "system", "content": system}]

    async def answer(self, heard: Said) -> str:
        """Ask for the next turn."""
        return await self._next(str(heard))

    async def mend(self, fault: str) -> str:
        """Ask for the turn again, with what was wrong."""
        return await self._next(f"[error] {fault}")

    def counted(self) -> dict[str, float]:
        """The game's tokens and cost so far."""
        totals = self._tally.totals()
        return {name: totals.get(key, 0.0) for key, name in _COUNTED.items()}

    async def _next(self, heard: str) -> str:
        self._messages.append({"role": "user", "content": heard})
        turn = await self._endpoint.ask(self._messages, self._tally)
        self._messages.append({"role": "assistant", "content": turn})
        return turn
