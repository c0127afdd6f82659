"""Takes a program out of a response."""

from __future__ import annotations

from collections.abc import Collection, Iterator


def last_block(text: str, tags: Collection[str]) -> str | None:
    """The last fenced block with one of some language tags; None where there is none.

    A fence is a line that begins with at least three backticks or tildes; the block ends at a line
    of at least as many. One that is not closed is none. Takes time in proportion to the text.

    Args:
        text: The response.
        tags: What may stand right after the opening fence, in any case; "" for nothing.
    """
    wanted = {tag.casefold() for tag in tags}
    last = None
    for tag, lines in _blocks(text):
        if tag.casefold() in wanted:
            last = lines
    return None if last is None else "".join(last)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    fence, tag, lines = "", "", list[str]()
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if fence and bare.startswith(fence) and not bare.strip(fence[0]):
            yield tag, lines
            fence = ""
        elif fence:
            lines.append(line)
        elif bare.startswith(("```", "~~~")):
            mark = bare[0]
            info = bare.lstrip(mark)
            fence = mark * (len(bare) - len(info))
            tag, lines = next(iter(info.split()), ""), []
            if mark == "`" and mark in info:  # a span of code, no fence
                fence = ""
