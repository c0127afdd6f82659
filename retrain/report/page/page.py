"""The page as a whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import PurePath

from retrain import __version__
from retrain.report.newest import newest_index
from retrain.report.page.curves import curves
from retrain.report.page.episodes import episodes
from retrain.report.page.failures import ending, failures, reasons
from retrain.report.page.markup import Html, Part, element, escaped, joined, short
from retrain.report.page.numbers import compared, tiles
from retrain.report.page.settings import configuration, differences, reproduction, versions
from retrain.report.page.timings import timings
from retrain.report.progress import duration
from retrain.report.record import RunRecord
from retrain.view.assets import read_asset
from retrain.view.index import RunIndex

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_DARK = ':root[data-theme="dark"]'


def report_page(records: Sequence[RunRecord]) -> str:
    """A page about one run, or about several side by side.

    Args:
        records: The runs; at least one.
    """
    indexes = [newest_index(record.folder) for record in records]
    problems = [
        problem
        for record, index in zip(records, indexes, strict=True)
        for problem in (*record.problems, *index.problems)
    ]
    one = len(records) == 1
    sections = _of_one(records[0], indexes[0]) if one else _of_several(records, indexes)
    title = records[0].title if one else " and ".join(names_of(records))
    body = element(
        "body",
        _header(records),
        _notices(problems),
        element("main", *sections),
        element("footer", _footer(), class_="quiet"),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title}: report"),
        element("style", Html(_styles())),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def names_of(records: Sequence[RunRecord]) -> list[str]:
    """A short name for each run: the backend where that tells them apart, else the folder."""
    candidates = (
        [record.backend for record in records],
        [record.title for record in records],
        [_folder_name(record) for record in records],
        [f"{at + 1}: {_folder_name(record)}" for at, record in enumerate(records)],
    )
    return next((names for names in candidates if len(set(names)) == len(names)), candidates[-1])


def _folder_name(record: RunRecord) -> str:
    """The run folder's name; a stage's with its run's."""
    folder = PurePath(record.folder)
    return (
        f"{folder.parent.parent.name}/{folder.name}"
        if folder.parent.name == "stages"
        else folder.name
    )


def _header(records: Sequence[RunRecord]) -> Html:
    if len(records) > 1:
        heads = [
            element("li", element("b", name), " ", _what(record, name))
            for name, record in zip(names_of(records), records, strict=True)
        ]
        title = f"{len(records)} runs side by side"
        return element("header", element("h1", title), element("ul", *heads))
    (record,) = records
    state = str(record.state)
    chip = element("span", state, class_=f"chip {state.replace(' ', '-')}")
    return element("header", element("h1", record.title, " ", chip), element("p", _what(record)))


def _what(record: RunRecord, name: str = "") -> str:
    planned = f" of {record.planned}" if record.planned else ""
    facts = [
        record.backend,
        str(record.setting("algorithm", "name") or ""),
        str(record.setting("environment", "type") or ""),
        _tail(str(record.setting("model", "name_or_path") or "")),
        f"iteration {record.iterations}{planned}",
        duration(record.seconds),
        _tail(str(record.folder)),
    ]
    return " · ".join(short(fact, 300) for fact in facts if fact and fact != name)


def _tail(path: str) -> str:
    """The end of an absolute path, which says enough in a heading."""
    parts = PurePath(path).parts
    return f"…/{'/'.join(parts[-3:])}" if path.startswith("/") and len(parts) > 4 else path


def _of_one(record: RunRecord, index: RunIndex) -> list[Html]:
    names = [""]
    return [
        tiles(record),
        _section("Curves", curves([record], names)),
        _section("Episodes", episodes(index)),
        _section("Failures", failures([record], names), reasons(index), ending(record)),
        _section("Time", timings(record)),
        _section("Run it again", reproduction(record), versions([record], names)),
        _section("Configuration", configuration(record)),
    ]


def _of_several(records: Sequence[RunRecord], indexes: Sequence[RunIndex]) -> list[Html]:
    names = names_of(records)
    runs = list(zip(names, records, indexes, strict=True))
    return [
        _section("Numbers", compared(records, names)),
        _section("Curves", curves(records, names)),
        _section("What differs", differences(records, names)),
        *(_section(f"Episodes of {name}", episodes(index)) for name, _, index in runs),
        _section("Failures", failures(records, names)),
        *(_section(f"Time of {name}", timings(record)) for name, record, _ in runs),
        _section("Versions", versions(records, names)),
        *(_section(f"Run {name} again", reproduction(record)) for name, record, _ in runs),
    ]


def _section(title: str, *parts: Part) -> Html:
    return element("section", element("h2", title), *parts)


def _notices(problems: Sequence[str]) -> Html | None:
    if not problems:
        return None
    items = (element("li", short(problem, 500)) for problem in problems)
    said = f"{len(problems)} of its parts could not be read; the rest is below"
    return element(
        "details", element("summary", said), element("ul", *items), class_="notices", open=""
    )


def _footer() -> Html:
    written = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return joined(
        [escaped(f"Written by retrain {__version__} on {written}. Every value: metrics.jsonl.")]
    )


def _styles() -> str:
    """The viewer's colours, dark where the reader's system is, and the page's own rules."""
    light, _, dark = read_asset("colours.css").partition(_DARK)
    own = files("retrain.report.page.assets").joinpath("report.css").read_text("utf-8")
    return f"{light}@media (prefers-color-scheme: dark) {{ :root{dark} }}\n{own}"
