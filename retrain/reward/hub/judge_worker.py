"""A configured pattern over a judge's reply; runs in a worker process with a time limit."""

from __future__ import annotations

import re


def last_group(pattern: str, text: str) -> str | None:
    """What the first group of a pattern's last match holds; None where there is no match."""
    last = None
    for match in re.finditer(pattern, text, re.DOTALL):
        last = match.group(1)
    return last
