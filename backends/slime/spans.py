"""The turns of an episode as spans of slime's trace, with the times at which they happened."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from uuid import uuid4

from backends.slime.engine import Answer
from backends.slime.framework import framework

_NAME = "sglang_generate"
"""The span that slime's own figures about requests are read from."""


def add_spans(sample: Any, answer: Answer) -> None:
    """Add the span of one request to a sample; nothing where slime is not there to read it.

    Args:
        sample: Slime's sample.
        answer: The request and what the server said about it.
    """
    if not framework().real:
        return
    tracing = import_module("slime.observability.trace_utils")
    handle = tracing.bind_trace(sample)
    attributes = tracing.build_sglang_meta_trace_attrs(dict(answer.meta_info))
    attributes.pop(tracing.TRACE_CHILDREN_KEY, None)
    span = {
        "name": _NAME,
        "span_id": uuid4().hex,
        "trace_id": handle.trace_id,
        "sample_id": handle.sample_id,
        "group_id": handle.group_id,
        "attempt": handle.attempt,
    }
    handle.carrier["events"] += [
        {**span, "type": "span_start", "ts": answer.started},
        {**span, "type": "span_end", "ts": answer.ended, "attrs": attributes},
    ]
