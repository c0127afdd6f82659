"""Arguments as the words of a command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from backends.slime.flags import Flag, known_flags


def to_argv(arguments: Mapping[str, Any]) -> list[str]:
    """The command line of slime's `train.py`.

    An option that the tested slime lacks is written as its value suggests: `check_options` has
    asked the slime that will read it.

    Args:
        arguments: Option to value, in order, as a plan holds them. True gives a switch; None gives
            nothing, and so does False, but where the option has a spelling that turns it off. A
            list gives several values, or, where the option takes one, JSON.
    """
    return [word for name, value in arguments.items() for word in _words(name, value)]


def _words(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    flag = known_flags().get(name) or _guessed(name, value)
    if flag.switch:
        return _switch(flag, on=bool(value))
    if flag.repeatable and isinstance(value, list | tuple):
        return [word for item in value for word in _valued(flag, item)]
    return _valued(flag, value)


def _guessed(name: str, value: Any) -> Flag:
    nargs = 0 if isinstance(value, bool) else "+" if isinstance(value, list | tuple) else None
    return Flag(f"--{name.replace('_', '-')}", "slime", name, "str", nargs)


def _switch(flag: Flag, *, on: bool) -> list[str]:
    if on:
        return [flag.spelling]
    return [flag.negation] if flag.negation else []


def _valued(flag: Flag, value: Any) -> list[str]:
    if flag.several:
        values = value if isinstance(value, list | tuple) else [value]
        return [flag.spelling, *map(_text, values)]
    if flag.nargs == "?" and value is True:
        return [flag.spelling]
    text = _text(value)
    if text.startswith("-") and not _is_number(text):
        return [f"{flag.spelling}={text}"]
    return [flag.spelling, text]


def _text(value: Any) -> str:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"))
    return str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
