"""HTML as text: what is not `Html` is escaped, always."""

from __future__ import annotations

import html
from collections.abc import Iterable

from retrain.report.terminal import printable


class Html(str):
    """Markup that was made here; every other text is escaped where it is put into it."""

    __slots__ = ()


Part = str | None
"""`Html` goes in as it is, text is escaped, None is left out."""

_EMPTY = frozenset({"meta", "path", "line", "circle", "rect"})


def escaped(text: str) -> Html:
    """A text as markup: inert, with control and bidirectional characters written as escapes."""
    return Html(html.escape(printable(text), quote=True))


def short(text: str, most: int) -> str:
    """A text, cut where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def joined(parts: Iterable[Part], between: str = "") -> Html:
    """Parts one after the other."""
    return Html(between.join(_markup(part) for part in parts if part is not None))


def element(tag: str, /, *parts: Part, **attributes: str | float | None) -> Html:
    """An element.

    Args:
        tag: Its name.
        *parts: What stands in it.
        **attributes: Its attributes; "_" in a name stands for "-", a trailing one is dropped, and
            None leaves the attribute out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_written(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if tag in _EMPTY and not parts:
        return Html(f"<{tag}{given}/>")
    return Html(f"<{tag}{given}>{joined(parts)}</{tag}>")


def table(head: Iterable[Part], rows: Iterable[Iterable[Part]], **attributes: str | None) -> Html:
    """A table; the first cell of a row is its heading."""
    names = element("tr", *(element("th", name or "", scope="col") for name in head))
    body = (
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", cell or "") for cell in cells),
        )
        for first, *cells in rows
    )
    inner = element("table", element("thead", names), element("tbody", *body), **attributes)
    return element("div", inner, class_="wide")


def _markup(part: str) -> str:
    return part if isinstance(part, Html) else escaped(part)


def _written(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
