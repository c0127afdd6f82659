"""Parse a command line as slime does, and print what became of it as JSON on the last line."""

from __future__ import annotations

import json
import sys


def main() -> None:
    from slime.utils.arguments import parse_args

    args = vars(parse_args())
    unknown = [
        word
        for word in sys.argv[1:]
        if word.startswith("--") and not _known(word.partition("=")[0], args)
    ]
    plain = {k: v for k, v in args.items() if isinstance(v, str | int | float | list | dict)}
    print(json.dumps({"unknown": unknown, "args": plain}, default=str))


def _known(spelling: str, args: dict[str, object]) -> bool:
    """Whether the option left a trace; the stand-in for SGLang knows few of SGLang's."""
    from backends.slime.flags import known_flags, option_name

    flag = known_flags()[option_name(spelling)]
    return flag.owner == "sglang" or flag.dest in args or flag.name in args


if __name__ == "__main__":
    main()
