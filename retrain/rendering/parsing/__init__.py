"""Parsers: the text of a sampled turn to an `Action`. What cannot be read is data, never raised."""

from retrain.rendering.parsing.hermes import parse_hermes
from retrain.rendering.parsing.llama3 import parse_llama3
from retrain.rendering.parsing.plain import parse_plain
from retrain.rendering.parsing.registry import PARSERS, Parser, parser_named, register_parser

__all__ = [
    "PARSERS",
    "Parser",
    "parse_hermes",
    "parse_llama3",
    "parse_plain",
    "parser_named",
    "register_parser",
]
