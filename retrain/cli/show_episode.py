"""One episode for people: a conversation whose tokens show whether they are trained on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from retrain.cli.show_text import make_console
from retrain.report.episode_view import CLOSE, OPEN, TRAINED, UNTRAINED
from retrain.report.terminal import one_line, printable
from retrain.view.episode import Author, Episode, Span, Stream
from retrain.view.index import RunIndex

if TYPE_CHECKING:
    from rich.text import Text

LONGEST = 20_000
"""Most characters of a stretch that are shown."""

_LONGEST_FACT = 400


def print_episode(index: RunIndex, sample: str, *, full: bool) -> None:
    """Print an episode: coloured where the console has colours, else with brackets.

    Args:
        index: The run.
        sample: FILE.LINE.
        full: Show texts of any length.

    Raises:
        DataError: There is no such episode, or it is damaged.
    """
    from retrain.view.reading import read_episode

    console = make_console()
    plain = console.no_color or console.color_system is None
    episode = read_episode(index, sample)
    for text in _parts(episode, plain, None if full else LONGEST):
        console.print(text, soft_wrap=True)


def _parts(episode: Episode, plain: bool, longest: int | None) -> Iterator[Text]:
    yield _heading(episode, plain)
    for number, stream in enumerate(episode.streams):
        if len(episode.streams) > 1:
            yield _rule(f"segment {number + 1} of {len(episode.streams)}", plain)
        for span in stream.spans:
            yield _rule(_who(stream, span), plain)
            yield _tokens(stream, span, plain, longest)
    trace = episode.error.get("traceback")
    if isinstance(trace, str) and trace:
        yield _rule("traceback", plain)
        yield _styled(printable(trace), UNTRAINED, plain)


def _heading(episode: Episode, plain: bool) -> Text:
    summary = episode.summary
    parts = ", ".join(f"{name} {value:+.4g}" for name, value in summary.rewards.items())
    reward = "unknown" if summary.reward is None else f"{summary.reward:+.4f}"
    facts = {
        "sample": summary.id,
        "task": summary.task_id,
        "status": f"{summary.status} ({summary.stop_reason})",
        "reward": f"{reward} ({parts})" if parts else reward,
        "advantage": f"{summary.advantage:+.4f}",
        "trained": f"{summary.trained} of {summary.tokens} tokens",
        "label": "" if episode.label is None else str(episode.label),
        "weights": ", ".join(episode.weight_versions),
        "flags": ", ".join(sorted(summary.flags)),
        "error": summary.error or "",
        "mask": "; ".join(summary.mask_faults),
    }
    text = _styled("", "", plain)
    for name, fact in facts.items():
        if fact:
            text.append(f"{name:>9}  ", "" if plain else UNTRAINED)
            text.append(printable(_shortened(fact), keep="", escape=OPEN + CLOSE) + "\n")
    text.rstrip()
    return text


def _shortened(fact: str) -> str:
    return fact if len(fact) <= _LONGEST_FACT else f"{fact[:_LONGEST_FACT]} …"


def _who(stream: Stream, span: Span) -> str:
    if span.author is Author.PROMPT:
        return "prompt"
    facts = [f"turn {span.turn + 1}", str(span.author)]
    if span.author is Author.MODEL:
        trained, length = sum(stream.mask[span.start : span.end]), span.end - span.start
        if not stream.exact and 0 < trained < length:
            facts.append(f"{trained} of {length} tokens trained; the run did not record which text")
        if span.action.get("parse_error"):
            facts.append(f"cannot be read: {one_line(str(span.action['parse_error']))[:200]}")
        if span.reward:
            facts.append(f"reward {span.reward:+.4g}")
    return ", ".join(facts)


def _rule(text: str, plain: bool) -> Text:
    return _styled(f"── {text} ", "bold", plain)


def _styled(text: str, style: str, plain: bool) -> Text:
    from rich.text import Text

    return Text(text, "" if plain else style)


def _tokens(stream: Stream, span: Span, plain: bool, longest: int | None) -> Text:
    text = _styled("", "", plain)
    left = longest
    for trained, words in _runs(stream, span):
        shown = words if left is None else words[:left]
        if plain:
            safe = printable(shown, escape=OPEN + CLOSE)
            text.append(f"{OPEN}{safe}{CLOSE}" if trained else safe)
        else:
            text.append(printable(shown), TRAINED if trained else UNTRAINED)
        if left is not None:
            left -= len(shown)
            if len(shown) < len(words):
                text.append(
                    f" … shortened, {len(stream.text(span)):,} characters; --full shows all"
                )
                break
    return text


def _runs(stream: Stream, span: Span) -> Iterator[tuple[int, str]]:
    """Stretches of the same mask; without recorded pieces a span is one, trained where any is."""
    places = range(span.start, span.end)
    if not stream.exact:
        yield max(stream.mask[span.start : span.end]), stream.text(span)
        return
    for trained, run in groupby(places, key=lambda place: stream.mask[place]):
        yield trained, "".join(stream.texts[place] for place in run)
