"""WCAG 2.2, 1.4.3 and 1.4.11: contrast of text, and of what tells things apart."""

import re

import pytest

from retrain.view.assets import read_asset

TEXT, SHAPE = 4.5, 3.0
BACKS = ("page", "panel", "raised", "chosen", "warn-back")
SHADES = (
    "trained",
    "skipped",
    *(f"low-{n}" for n in range(1, 7)),
    *(f"up-{n}" for n in range(1, 5)),
    *(f"kind-{n}" for n in range(1, 7)),
)
THEMES = dict(
    re.findall(r":root(\[data-theme=\"dark\"\])? \{(.*?)\}", read_asset("colours.css"), re.S)
)


def colours(theme: str) -> dict[str, str]:
    light = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", THEMES[""]))
    if theme == "light":
        return light
    return {
        **light,
        **dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", THEMES['[data-theme="dark"]'])),
    }


def luminance(colour: str) -> float:
    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[n : n + 2], 16)) for n in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_on_everything_that_it_stands_on(theme: str) -> None:
    palette = colours(theme)
    pairs = [("text", back) for back in (*BACKS, *SHADES)]
    pairs += [(name, back) for name in ("quiet", "accent", "good", "bad") for back in BACKS]
    pairs += [(name, "raised") for name in ("prompt", "model", "environment")]
    pairs += [("model", "panel"), ("on-accent", "accent")]
    poor = {
        (name, back): round(contrast(palette[name], palette[back]), 2)
        for name, back in pairs
        if contrast(palette[name], palette[back]) < TEXT
    }
    assert poor == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_and_edges_can_be_told_from_what_is_behind(theme: str) -> None:
    palette = colours(theme)
    drawn = [f"draw-{n}" for n in range(1, 7)]
    pairs = [(name, "raised") for name in (*drawn, "trained-edge", "skipped-edge", "accent")]
    poor = {
        name: round(contrast(palette[name], palette[back]), 2)
        for name, back in pairs
        if contrast(palette[name], palette[back]) < SHAPE
    }
    assert poor == {}


def test_both_themes_name_every_colour() -> None:
    found = [set(re.findall(r"--([\w-]+):", THEMES[key])) for key in ("", '[data-theme="dark"]')]
    assert found[0] == found[1]
    used = set()
    for name in ("base", "list", "episode", "tokens", "curves"):
        used |= set(re.findall(r"var\(--([\w-]+)\)", read_asset(f"{name}.css")))
    assert used <= found[0]
