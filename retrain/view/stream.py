"""A row's tokens with their texts, masks and logprobs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from retrain.view.episode import Author, Span, Stream
from retrain.view.fields import Fields, column, finite, mapping, number, objects, text, whole
from retrain.view.lines import BrokenLine
from retrain.view.mask_check import mask_faults
from retrain.view.summary import NOTES


def read_stream(row: Fields, first_turn: int, trainer: Sequence[Any] | None = None) -> Stream:
    """The stream of a row.

    Args:
        row: The row.
        first_turn: How many turns the segments before it have.
        trainer: [R] the trainer's logprobs of its response; None where they are not known.

    Raises:
        BrokenLine: It is no sample.
    """
    notes = mapping(mapping(row, "metadata"), NOTES)
    turns = objects(notes, "turns")
    mask_faults(row, turns)
    ids = tuple(column(row, "tokens"))
    if not all(type(token) is int for token in ids):
        raise BrokenLine("'tokens' holds something else than whole numbers")
    prompt = len(ids) - len(column(row, "loss_mask"))
    spans = tuple(_spans(turns, first_turn, prompt, len(ids)))
    texts, exact = _texts(row, spans, len(ids))
    return Stream(
        ids=ids,
        texts=texts,
        mask=(0,) * prompt + tuple(int(bit == 1) for bit in column(row, "loss_mask")),
        logprobs=_sampled(column(row, "rollout_log_probs"), spans, prompt),
        trainer_logprobs=_trainer(trainer, spans, prompt, len(ids)),
        spans=spans,
        exact=exact,
        images=_images(notes),
    )


def _images(notes: Fields) -> tuple[str, ...]:
    """What a stream's images are called; one that stands in the row itself is a `data:` URI."""
    value = notes.get("images")
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _spans(turns: Iterable[Fields], turn: int, prompt: int, end: int) -> Iterable[Span]:
    if prompt:
        yield Span(Author.PROMPT, -1, 0, prompt)
    at = prompt
    for note in turns:
        middle = min(at + max(0, whole(note, "output") or 0), end)
        yield _model_span(note, turn, at, middle)
        at = min(middle + max(0, whole(note, "env") or 0), end)
        if at > middle:
            yield Span(Author.ENVIRONMENT, turn, middle, at)
        turn += 1
    if at < end:
        yield Span(Author.ENVIRONMENT, turn - 1, at, end)


def _model_span(note: Fields, turn: int, start: int, end: int) -> Span:
    version = str(note.get("weight_version", ""))
    spans = note.get("weight_spans")
    listed = spans if isinstance(spans, list) else []
    pairs = [pair for pair in listed if isinstance(pair, list) and len(pair) == 2]
    versions = tuple((count, str(name)) for count, name in pairs if isinstance(count, int))
    return Span(
        author=Author.MODEL,
        turn=turn,
        start=start,
        end=end,
        action=mapping(note, "action"),
        finish_reason=text(note, "finish_reason"),
        versions=versions or ((end - start, version),),
        reward=number(note, "reward"),
        info=mapping(note, "info"),
        cached_tokens=whole(note, "cached_tokens") or 0,
    )


def _texts(row: Fields, spans: Sequence[Span], length: int) -> tuple[tuple[str, ...], bool]:
    """[T] the text of each token, and whether they are the recorded pieces."""
    texts = [""] * length
    recorded = objects(row, "turns")
    exact = bool(recorded)
    for span, turn in zip(spans, recorded, strict=False):
        words = text(turn, "text") or ""
        pieces = _pieces(turn.get("pieces"), span, words)
        if pieces is not None:
            ends = list(accumulate(pieces))
            starts = [0, *ends[:-1]]
            texts[span.start : span.end] = [
                words[start:end] for start, end in zip(starts, ends, strict=True)
            ]
        elif span.end > span.start:
            exact = False
            texts[span.start] = words
    return tuple(texts), exact


def _pieces(value: Any, span: Span, words: str) -> list[int] | None:
    """The recorded lengths, where they fit the span and its text."""
    if not isinstance(value, list) or len(value) != span.end - span.start or not value:
        return None
    fits = all(type(n) is int and n >= 0 for n in value) and sum(value) == len(words)
    return value if fits else None


def _sampled(
    logprobs: Sequence[Any], spans: Sequence[Span], prompt: int
) -> tuple[float | None, ...]:
    found: list[float | None] = [None] * (prompt + len(logprobs))
    for span in spans:
        if span.author is Author.MODEL:
            values = logprobs[span.start - prompt : span.end - prompt]
            found[span.start : span.end] = [finite(value) for value in values]
    return tuple(found)


def _trainer(
    logprobs: Sequence[Any] | None, spans: Sequence[Span], prompt: int, length: int
) -> tuple[float | None, ...]:
    if not isinstance(logprobs, Sequence) or len(logprobs) != length - prompt:
        return (None,) * length
    return _sampled(logprobs, spans, prompt)


def turn_count(row: Fields) -> int:
    """How many model turns a row has."""
    notes: Mapping[str, Any] = mapping(mapping(row, "metadata"), NOTES)
    return len(objects(notes, "turns"))
