"""The report's colours can be told apart and read, light and dark (WCAG 2.2, AA)."""

from __future__ import annotations

import re

import pytest

from retrain.report.page.page import _styles

TEXTS = [
    ("text", "page"),
    ("text", "panel"),
    ("text", "raised"),
    ("text", "trained"),
    ("text", "skipped"),
    ("text", "chosen"),
    ("text", "warn-back"),
    ("quiet", "page"),
    ("quiet", "panel"),
    ("quiet", "raised"),
    ("good", "page"),
    ("bad", "page"),
    ("bad", "warn-back"),
    ("accent", "page"),
    ("model", "raised"),
    ("environment", "raised"),
]
"""Text over what it stands on: at least 4.5 to 1."""

DRAWN = [(f"draw-{n}", "raised") for n in range(1, 7)] + [("trained-edge", "raised")]
"""Lines over what they are drawn on: at least 3 to 1."""


def palettes() -> dict[str, dict[str, str]]:
    light, _, rest = _styles().partition("@media (prefers-color-scheme: dark)")
    dark = rest[: rest.index("}\n")]
    found = {
        name: dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", text))
        for name, text in (("light", light), ("dark", dark))
    }
    assert found["light"].keys() == found["dark"].keys()
    return found


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_pair_that_meets_has_contrast(theme: str) -> None:
    colours = palettes()[theme]
    wanted = [(pair, 4.5) for pair in TEXTS] + [(pair, 3.0) for pair in DRAWN]
    faint = {
        f"{a} on {b}": round(contrast(colours[a], colours[b]), 2)
        for (a, b), least in wanted
        if contrast(colours[a], colours[b]) < least
    }
    assert faint == {}


def test_every_colour_that_is_used_is_defined() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", _styles()))
    assert used - palettes()["light"].keys() == set()
