"""No tools: text, with the reasoning apart."""

from __future__ import annotations

from retrain.rendering.parsing.reasoning import split_reasoning
from retrain.types import Action


def parse_plain(text: str) -> Action:
    """Read a turn that holds no tool calls."""
    turn = split_reasoning(text)
    return Action(turn.rest.strip(), turn.reasoning)
