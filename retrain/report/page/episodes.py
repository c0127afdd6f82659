"""Episodes as readable conversations, their tokens coloured by mask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from retrain.errors import DataError
from retrain.report.newest import Pick, picks
from retrain.report.page.markup import Html, element, escaped, joined, short
from retrain.view.episode import Author, Episode, Span, Stream
from retrain.view.index import RunIndex
from retrain.view.reading import read_episode
from retrain.view.summary import EpisodeSummary

LONGEST = 12_000
"""Most characters of a stretch that are shown; `retrain show --full` shows all."""

_MOST_TURNS = 40
_SPECIAL = re.compile(r"&lt;\|[\w ./-]{1,40}\|&gt;")


def episodes(index: RunIndex) -> Html:
    """The episodes worth a look, each as a card; closed but for the first of each run."""
    cards = [_card(index, pick, at == 0) for at, pick in enumerate(picks(index))]
    if not cards:
        return element("p", "No samples are recorded yet.", class_="quiet")
    return element("div", _mask_key(), *cards)


def _mask_key() -> Html:
    return element(
        "p",
        element("span", "trained on", class_="trained"),
        " the policy sampled these tokens and learns from them  ",
        element("span", "skipped", class_="skipped"),
        " sampled and masked  ",
        element("span", "given", class_="given"),
        " from the prompt, the template or the environment",
        class_="mask-key",
    )


def _card(index: RunIndex, pick: Pick, opened: bool) -> Html:
    summary = pick.episode
    head = element(
        "summary",
        element("span", pick.role, class_=f"role {pick.role}"),
        element("span", short(summary.task_id, 200), class_="task"),
        element("span", _facts(summary), class_="facts quiet"),
    )
    try:
        inside = _conversation(read_episode(index, summary.id))
    except DataError as error:
        inside = element("p", str(error), class_="bad")
    return element("details", head, inside, class_="episode", open="" if opened else None)


def _facts(summary: EpisodeSummary) -> str:
    reward = "unknown" if summary.reward is None else f"{summary.reward:+.3f}"
    facts = [
        f"reward {reward}",
        f"advantage {summary.advantage:+.2f}",
        summary.status,
        f"{summary.trained} of {summary.tokens} tokens trained",
        *sorted(summary.flags),
        f"sample {summary.id}",
    ]
    return " · ".join(facts)


def _conversation(episode: Episode) -> Html:
    parts: list[Html] = []
    if episode.error:
        parts.append(_failure(episode))
    begun = episode.streams if episode.summary.turns or not episode.error else ()
    for number, stream in enumerate(begun):
        if len(episode.streams) > 1:
            name = f"segment {number + 1} of {len(episode.streams)}"
            parts.append(element("h4", name, class_="segment"))
        shown = stream.spans[:_MOST_TURNS]
        parts += [_turn(stream, span) for span in shown]
        if len(shown) < len(stream.spans):
            left = f"{len(stream.spans) - len(shown)} more stretches; retrain show has them all"
            parts.append(element("p", left, class_="quiet"))
    if episode.label is not None:
        parts.append(
            element("p", f"expected answer: {short(str(episode.label), 500)}", class_="label")
        )
    return element("div", *parts, class_="conversation")


def _failure(episode: Episode) -> Html:
    said = f"{episode.error.get('boundary', '?')}: {episode.error.get('reason', '?')}"
    trace = episode.error.get("traceback")
    more = (
        element(
            "details", element("summary", "traceback"), element("pre", short(str(trace), LONGEST))
        )
        if trace
        else None
    )
    return element("div", element("p", short(said, LONGEST)), more, class_="failure")


def _turn(stream: Stream, span: Span) -> Html:
    who = str(span.author) if span.turn < 0 else f"turn {span.turn + 1} · {span.author}"
    notes = []
    if span.author is Author.MODEL and span.reward:
        notes.append(f"reward {span.reward:+.3g}")
    if span.action.get("parse_error"):
        notes.append(f"cannot be read: {short(str(span.action['parse_error']), 300)}")
    return element(
        "div",
        element("h4", who, *(element("span", f" · {note}", class_="quiet") for note in notes)),
        element("div", *_tokens(stream, span), class_="tokens", dir="auto"),
        class_=f"turn {span.author}",
    )


def _tokens(stream: Stream, span: Span) -> Iterator[Html]:
    left = LONGEST
    for class_, text in _runs(stream, span):
        shown = text[:left].strip("\n") if class_ == "given" else text[:left]
        yield element("span", _dimmed(shown), class_=class_)
        left -= len(text)
        if left <= 0:
            whole = sum(len(words) for _, words in _runs(stream, span))
            yield element("em", f" … shortened, {whole:,} characters", class_="quiet")
            return


def _runs(stream: Stream, span: Span) -> Iterator[tuple[str, str]]:
    sampled = span.author is Author.MODEL
    if not stream.exact:
        trained = any(stream.mask[span.start : span.end])
        yield _class(trained, sampled), stream.text(span)
        return
    for trained, places in groupby(range(span.start, span.end), key=lambda at: stream.mask[at]):
        yield _class(bool(trained), sampled), "".join(stream.texts[at] for at in places)


def _class(trained: bool, sampled: bool) -> str:
    if trained:
        return "trained"
    return "skipped" if sampled else "given"


def _dimmed(text: str) -> Html:
    """A text whose special tokens stand back, so that the words can be read."""
    marked: str = escaped(text)
    parts: list[Html] = []
    at = 0
    for match in _SPECIAL.finditer(marked):
        parts += [Html(marked[at : match.start()]), element("i", Html(match[0]))]
        at = match.end()
    return joined([*parts, Html(marked[at:])])
