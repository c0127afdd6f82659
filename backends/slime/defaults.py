"""slime's own defaults, from the table of its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from backends.base import Plan
from backends.slime.flags import Flag, known_flags

_SUPPRESSED = "==SUPPRESS=="
"""argparse's mark of an option that sets nothing where it is not given."""
_ENUMERATED = re.compile(r"<\w+\.(\w+): .*>")
"""How an enumeration's value stands in the table."""


def defaults(plan: Plan) -> Mapping[str, Any]:
    """What the parsers of slime, Megatron-LM and SGLang hold where an option is not given.

    Args:
        plan: The plan whose arguments are asked about.
    """
    flags = known_flags()
    found = {name: _default(flags[name]) for name in plan.arguments if name in flags}
    return {name: value for name, value in found.items() if value is not None}


def _default(flag: Flag) -> Any:
    """An option's default; a switch is off, also one that turns off what is on by default."""
    if flag.switch and not flag.negation:
        return False
    if flag.default == _SUPPRESSED:
        return None
    if isinstance(flag.default, str) and (match := _ENUMERATED.fullmatch(flag.default)):
        return match[1]
    return flag.default
