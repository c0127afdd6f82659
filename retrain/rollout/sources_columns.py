"""The columns of a Hugging Face dataset that become tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from retrain.errors import ConfigError, nearest
from retrain.rollout.sources_rows import SECTION, RowKeys

_JSON = ("bool", "int", "uint", "float", "string", "large_string", "null")
_PLAIN = ("ClassLabel", "Translation", "Json", "Array2D", "Array3D", "Array4D", "Array5D")


def choose_columns(rows: Any, keys: RowKeys, columns: Sequence[str] | None) -> Any:
    """A dataset with the columns that tasks are made of.

    Args:
        rows: A `datasets.Dataset`.
        keys: Which column holds what.
        columns: Those that become metadata; None keeps all.

    Raises:
        ConfigError: A column that is named is not there, or one holds what is no JSON value.
    """
    there = rows.column_names
    _require(there, keys, columns or ())
    if columns is not None:
        prompt = keys.prompt if keys.prompt in there else "messages"
        kept = {*columns, keys.id, keys.label, keys.images, prompt}
        rows = rows.select_columns([name for name in there if name in kept])
    rows = _undecoded(rows, keys.images)
    for name, feature in rows.features.items():
        if name == keys.images and _has_images(feature):
            continue
        for kind in _no_json(feature):
            raise ConfigError(
                f"{SECTION}.columns: the column {name!r} holds {kind}, which is no JSON value; "
                f"name the columns to keep (there are {', '.join(there)})"
                + (f", or {SECTION}.images_key: {name}" if kind == "Image" else "")
            )
    return rows


def _undecoded(rows: Any, images: str) -> Any:
    """The column of images as files' bytes or paths, which a task's images are made of."""
    feature = rows.features.get(images)
    if feature is None or not _has_images(feature):
        return rows
    from datasets import Image, List

    kind = type(feature).__name__
    encoded = Image(decode=False)
    return rows.cast_column(images, encoded if kind == "Image" else List(encoded))


def _has_images(feature: Any) -> bool:
    return "Image" in (type(feature).__name__, type(getattr(feature, "feature", None)).__name__)


def _require(there: Sequence[str], keys: RowKeys, columns: Iterable[str]) -> None:
    standard = RowKeys()
    optional = {standard.id, standard.label, standard.images}
    optional |= {standard.prompt} if "messages" in there else set()
    own = (
        ("prompt_key", keys.prompt),
        ("id_key", keys.id),
        ("label_key", keys.label),
        ("images_key", keys.images),
    )
    wanted = [(key, name) for key, name in own if name not in optional]
    for key, name in [*wanted, *(("columns", name) for name in columns)]:
        if name not in there:
            raise ConfigError(
                f"{SECTION}.{key}: there is no column {name!r}; {nearest(name, there)} (columns: "
                f"{', '.join(there)})"
            )


def _no_json(feature: Any) -> Iterator[str]:
    """The kinds of values within a column that are no JSON."""
    kind = type(feature).__name__
    if isinstance(feature, Mapping):
        for inner in feature.values():
            yield from _no_json(inner)
    elif isinstance(feature, list):
        yield from _no_json(feature[0])
    elif kind in ("List", "LargeList", "Sequence"):
        yield from _no_json(feature.feature)
    elif kind == "Value":
        if not feature.dtype.startswith(_JSON):
            yield feature.dtype
    elif kind not in _PLAIN:
        yield kind
