"""TRL's own defaults, asked of its configuration classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any

from backends.base import Plan


def defaults(plan: Plan) -> Mapping[str, Any]:
    """What `GRPOConfig` or `SFTConfig` holds where an argument is not given.

    Args:
        plan: The plan whose arguments are asked about.
    """
    from trl import GRPOConfig, SFTConfig

    config_class: Any = SFTConfig if plan.entry == "trl.SFTTrainer" else GRPOConfig
    found = {field.name: _default(field) for field in dataclasses.fields(config_class)}
    return {name: found[name] for name in plan.arguments if found.get(name) is not None}


def _default(field: Any) -> Any:
    """A field's default as a JSON value; None where there is none."""
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is dataclasses.MISSING:
        return None
    return value.value if isinstance(value, Enum) else value
