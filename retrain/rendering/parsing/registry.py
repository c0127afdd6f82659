"""The parsers by name; `rendering.tool_format` takes one of these names."""

from __future__ import annotations

from collections.abc import Callable

from retrain.errors import ConfigError, nearest
from retrain.rendering.parsing.gemma4 import parse_gemma4
from retrain.rendering.parsing.glm45 import parse_glm45
from retrain.rendering.parsing.harmony import parse_harmony
from retrain.rendering.parsing.hermes import parse_hermes
from retrain.rendering.parsing.lfm2 import parse_lfm2
from retrain.rendering.parsing.llama3 import parse_llama3
from retrain.rendering.parsing.muse import parse_muse
from retrain.rendering.parsing.plain import parse_plain
from retrain.rendering.parsing.qwen3_coder import parse_qwen3_coder
from retrain.types import Action

Parser = Callable[[str], Action]
"""Reads a turn's text: the generation prompt's own prefix first, the stop token taken off."""

PARSERS: dict[str, Parser] = {
    "hermes": parse_hermes,
    "llama3": parse_llama3,
    "qwen3_coder": parse_qwen3_coder,
    "glm45": parse_glm45,
    "gemma4": parse_gemma4,
    "lfm2": parse_lfm2,
    "harmony": parse_harmony,
    "muse": parse_muse,
    "plain": parse_plain,
}


def register_parser(name: str, parser: Parser) -> None:
    """Add a parser under a new name.

    Args:
        name: What `rendering.tool_format` will call it.
        parser: Must not raise: what it cannot read becomes `Action.parse_error`.

    Raises:
        ConfigError: The name is taken.
    """
    if name in PARSERS or name == "auto":
        raise ConfigError(f"rendering.tool_format {name!r} is taken; choose another name")
    PARSERS[name] = parser


def parser_named(name: str) -> Parser:
    """Find a parser.

    Raises:
        ConfigError: There is none of that name.
    """
    if name not in PARSERS:
        raise ConfigError(f"rendering.tool_format {name!r}: {nearest(name, ('auto', *PARSERS))}")
    return PARSERS[name]
