"""slime's own classes and functions where slime is importable, and stand-ins where it is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from backends.slime import stand_ins

Post = Callable[..., Awaitable[Any]]
"""(url, payload, *, headers) -> the answer's JSON."""


@dataclass(frozen=True, slots=True)
class Framework:
    """The names of slime that the plugin uses.

    Attributes:
        real: Whether they are slime's own.
        sample: `Sample`.
        train_output: `RolloutFnTrainOutput`.
        eval_output: `RolloutFnEvalOutput`.
        filter_output: `DynamicFilterOutput`.
    """

    real: bool
    sample: Any
    train_output: Any
    eval_output: Any
    filter_output: Any

    def post(self) -> Post | None:
        """The `post` of slime, which tries 60 times; None where slime has opened no client."""
        if not self.real:
            return None
        http = import_module("slime.utils.http_utils")
        ready = http._http_client is not None
        return _posting(http.post) if ready else None

    def load(self, path: str) -> Any:
        """A function by slime's dotted path."""
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)


@cache
def framework() -> Framework:
    """The names of slime, or the stand-ins.

    The stand-ins have the same fields and behave alike as far as the plugin goes; they let every
    function run where slime is not installed. The distribution named `slime` on PyPI is another
    package, and does not count.
    """
    try:
        types = import_module("slime.utils.types")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "slime":
            raise
        return Framework(
            False,
            stand_ins.Sample,
            stand_ins.RolloutFnTrainOutput,
            stand_ins.RolloutFnEvalOutput,
            stand_ins.DynamicFilterOutput,
        )
    outputs = import_module("slime.rollout.base_types")
    filters = import_module("slime.rollout.filter_hub.base_types")
    return Framework(
        True,
        types.Sample,
        outputs.RolloutFnTrainOutput,
        outputs.RolloutFnEvalOutput,
        filters.DynamicFilterOutput,
    )


def _posting(post: Callable[..., Awaitable[Any]]) -> Post:
    async def send(url: str, payload: Any, *, headers: Mapping[str, str]) -> Any:
        return await post(url, payload, headers=dict(headers))

    return send
