"""The groups that slime's own manager has, so that each that it throws away is known."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from retrain.config import RunConfig
from retrain.rollout.request import GroupRequest

OVER = ("completed", "truncated")
"""The statuses of samples that slime does not play again."""

OVER_BEFORE = "retrain_over_before"
"""Set in the metadata of a sample that was over when slime gave its group back: slime does not play
it again, so the rollout that trains on it says nothing about the weights of its own time."""

_COLLECTOR = "slime.rollout.sglang_rollout.generate_rollout"
_OURS = "backends.slime."


class HandedOut:
    """Groups that slime drew, and that were neither given back nor dropped by the filter.

    When a batch is full, slime's `generate_rollout_async` forgets the other groups that ended in
    the same moment, and without `--partial-rollout` all that it aborts. At the end of a rollout
    nothing of its is in play, so what is still here and not in the batch was thrown away.
    """

    def __init__(self) -> None:
        """Begin with nothing handed out."""
        self._requests: dict[int, GroupRequest] = {}

    def give(self, requests: Iterable[GroupRequest]) -> None:
        """Note groups that slime gets."""
        self._requests.update({request.index: request for request in requests})

    def settle(self, indices: Iterable[int | None]) -> None:
        """Forget groups of which it is known what became of them."""
        for index in indices:
            self._requests.pop(-1 if index is None else index, None)

    def thrown_away(self, trained: Collection[int | None]) -> list[GroupRequest]:
        """End a rollout.

        Args:
            trained: The indices of the groups of its batch.

        Returns:
            The groups that are in no other place, in the order drawn.
        """
        found = [request for index, request in self._requests.items() if index not in trained]
        self._requests = {}
        return sorted(found, key=lambda request: request.index)


def can_follow(config: RunConfig, args: Any) -> bool:
    """Whether what becomes of each group can be told from what slime tells us.

    Another collector may keep groups in play between rollouts, and a filter that is not ours drops
    groups without our seeing it.

    Args:
        config: The run.
        args: Slime's arguments.
    """
    filter_path = getattr(args, "dynamic_sampling_filter_path", None)
    return (
        config.rollout.owner == "slime"
        and getattr(args, "rollout_function_path", None) == _COLLECTOR
        and (filter_path is None or filter_path.startswith(_OURS))
    )
