"""Notices when the engine's weights do not move although slime has updated them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retrain.errors import BackendFailure


class WeightsWatch:
    """Compares the weight versions of rollouts that an update lies between."""

    def __init__(self) -> None:
        self._seen: dict[int, frozenset[str]] = {}

    def check(self, rollout_id: int, versions: Iterable[str], args: Any) -> None:
        """Check one rollout; asking twice about the same one is harmless.

        slime updates the weights after every rollout, or after every `--update-weights-interval`
        in `train_async.py`, where the rollout after the next is the first with new ones. So the
        versions of a rollout are compared with those of the rollout one interval before it, from
        the second one of this process on.

        Args:
            rollout_id: The rollout.
            versions: The weight versions of its turns.
            args: Slime's arguments.

        Raises:
            BackendFailure: A turn was sampled by weights that should have been replaced.
        """
        if getattr(args, "debug_rollout_only", False) or not hasattr(args, "sglang_router_ip"):
            return
        interval = int(getattr(args, "update_weights_interval", None) or 1)
        found = frozenset(versions)
        before = self._seen.get(rollout_id - interval, frozenset())
        first = min(self._seen, default=rollout_id)
        self._seen[rollout_id] = found
        self._seen = {n: v for n, v in self._seen.items() if n >= first and n > rollout_id - 64}
        stale = sorted(found & before)
        if stale and rollout_id - interval > first:
            raise BackendFailure(
                f"rollout {rollout_id}: the engine still samples with weight version "
                f"{', '.join(stale)}, as in rollout {rollout_id - interval}, although slime has "
                "updated the weights since; look for a failed weight update in slime's log, or an "
                "engine that does not report its weight_version"
            )
