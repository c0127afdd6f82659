"""The options of slime's `train.py`: slime's own, Megatron's, SGLang's and its router's.

`slime_flags.json` is what the parsers of slime 0.3.1 (624b824a), Megatron-LM 1dcf0da and SGLang
0.5.15 hold. slime ignores what it does not know, so a mistyped option would train with a default:
every option is looked up here before it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_OWNERS = ("megatron", "sglang", "slime")
"""Who defines an option, the one that wins last: slime redefines some of Megatron's."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One option.

    Attributes:
        spelling: How it is written on the command line ("--tis-clip").
        owner: Who defines it: "slime", "megatron" or "sglang".
        dest: The attribute that holds its value; a switch that turns something off is named after
            what it turns off ("add_bias_linear" for --disable-bias-linear).
        kind: The name of the function that reads its value ("int"); "bool" for a switch.
        nargs: How many values it takes: 0 for a switch, a number, "+", "*", "?", or None for one.
        choices: What it may be; empty for anything.
        negation: The spelling that turns it off; "" where there is none.
        repeatable: Whether it may be given several times.
        default: What it is where nobody gives it; None where nothing is, or it is computed.
    """

    spelling: str
    owner: str
    dest: str
    kind: str
    nargs: int | str | None
    choices: tuple[str, ...] = ()
    negation: str = ""
    repeatable: bool = False
    default: Any = None

    @property
    def name(self) -> str:
        """The option as configurations write it, without the prefix: "tis_clip"."""
        return option_name(self.spelling)

    @property
    def switch(self) -> bool:
        """Whether it takes no value."""
        return self.nargs == 0

    @property
    def several(self) -> bool:
        """Whether it takes a list."""
        return self.nargs in ("+", "*") or (isinstance(self.nargs, int) and self.nargs > 0)


def option_name(spelling: str) -> str:
    """`--tis-clip` as `tis_clip`."""
    return spelling.removeprefix("--").replace("-", "_")


@cache
def known_flags() -> Mapping[str, Flag]:
    """Every option by its name; an option with several spellings stands under each."""
    table = json.loads(files("backends.slime").joinpath("slime_flags.json").read_text("utf-8"))
    found: dict[str, Flag] = {}
    for owner in _OWNERS:
        for row in table[owner].values():
            for flag in _flags(row, owner):
                found[flag.name] = flag
    return found


def _flags(row: Mapping[str, Any], owner: str) -> list[Flag]:
    negatable = row.get("action") == "BooleanOptionalAction"
    spellings = row["flags"]
    negation = next((s for s in spellings if negatable and s.startswith("--no-")), "")
    switch = row["type"] == "bool" and row.get("action") != "StoreAction"
    listed = 0 if switch else row.get("nargs")
    nargs = int(str(listed)) if str(listed).isdigit() else listed
    return [
        Flag(
            spelling=spelling,
            owner=owner,
            dest=row["dest"],
            kind=str(row["type"]),
            nargs=nargs,
            choices=_choices(row.get("choices")),
            negation="" if spelling == negation else negation,
            repeatable=row.get("action") == "AppendAction",
            default=row.get("default"),
        )
        for spelling in spellings
    ]


def _choices(listed: object) -> tuple[str, ...]:
    """The choices as text; an enumeration's are written `[<Kind.name: 1>, …]` in the table."""
    if isinstance(listed, list):
        return tuple(str(choice) for choice in listed)
    if isinstance(listed, str):
        return tuple(part.split(":")[0].split(".")[-1] for part in listed.split("<")[1:])
    return ()
