"""Whether the environment of a configuration rewrites history, told before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.environment.declared import declares


def rewrites_history(type: str, env_specific_config: Mapping[str, Any] | None = None) -> bool:
    """Whether an environment declares `rewrites_history`; see `declares`.

    Args:
        type: As `environment.type`.
        env_specific_config: Its arguments.
    """
    return declares("rewrites_history", type, env_specific_config)
