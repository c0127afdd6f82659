"""What the page is told, as bytes."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, to_json


def encoded(document: Any) -> bytes:
    r"""A document as JSON in UTF-8.

    A number that is not finite becomes null. What no encoding can write, the surrogates by which
    Python names files whose names are no UTF-8, stands as an escape such as ``\udcff``.
    """
    try:
        return _json(document)
    except PydanticSerializationError:
        return _json(_writable(document))


def _json(document: Any) -> bytes:
    return to_json(document, inf_nan_mode="null", serialize_unknown=True)


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_writable(key): _writable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(inner) for inner in value]
    return value
