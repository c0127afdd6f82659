"""A slime that can be read and not run: the source text that retrain looks into."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from backends.slime.flags import known_flags
from backends.slime.flags_contract import USED

OWN = tuple(flag.spelling for flag in known_flags().values() if flag.owner == "slime")
"""The options that the tested slime declares."""


def options_text(options: Iterable[str]) -> str:
    calls = "".join(f"    parser.add_argument({option!r}, type=int)\n" for option in options)
    return f"def add(parser):\n{calls or '    pass'}\n"


def write_slime(root: Path, options: Iterable[str] = OWN, *, without: str = "") -> Path:
    """Write it; `without` names one member that a class of it lacks ("Sample.tokens")."""
    arguments = root / "slime" / "utils" / "arguments.py"
    arguments.parent.mkdir(parents=True, exist_ok=True)
    arguments.write_text(options_text(options))
    for file, defined in USED.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("".join(_text(n, m, without) for n, m in defined.items()))
    return root


def _text(name: str, members: Iterable[str], without: str) -> str:
    kept = [member for member in members if f"{name}.{member}" != without]
    if name.islower():
        return f"def {name}({', '.join(kept)}): ...\n"
    return f"class {name}:\n" + "".join(f"    {member}: int\n" for member in kept)
