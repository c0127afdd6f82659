"""The curve shows each component's raw reward, where there are several."""

from __future__ import annotations

from io import BytesIO

import pytest

from retrain.report.metrics import MetricRow

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'retrain[plot]'")

SHARED = {"reward/mean": 0.5, "reward/std": 0.1, "response/tokens": 9.0}
OTHERS = {
    "reward/trained/mean": 0.0,
    "reward/trained/math": 0.0,
    "reward/failed/math/timeout": 3.0,
    "eval/reward/math": 1.0,
}


def rows(**components: float) -> list[MetricRow]:
    named = {f"reward/{name}": value for name, value in components.items()}
    return [
        MetricRow(n, 0.0, {**SHARED, **OTHERS, **{k: v * n for k, v in named.items()}})
        for n in (1, 2, 3)
    ]


def test_components_are_told_from_everything_else_under_reward() -> None:
    from retrain.report.curve_components import component_series

    found = component_series(rows(math=1.0, format=0.5))
    assert list(found) == ["format", "math"]
    assert found["math"].values == (1.0, 2.0, 3.0)
    assert component_series(rows(math=1.0)) == {}, "one alone is the mean itself"


def test_six_are_shown_at_most_and_odd_names_are_drawn_as_they_are() -> None:
    from matplotlib.figure import Figure

    from retrain.report.curve_components import component_series, draw_components

    axes = Figure().add_subplot()
    names = {"_hidden": 1.0, "$x^": 2.0, "a_name_that_is_far_too_long": 3.0}
    shown = component_series(rows(**names, **{f"z{n}": 1.0 for n in range(9)}))
    draw_components(axes, shown)
    legend = axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(texts) == 6
    assert " _hidden" in texts and r" \$x^" in texts and " a_name_that_is_fa…" in texts


def test_the_picture_has_one_panel_more() -> None:
    from retrain.report.curve_panels import write_png

    pictures = []
    for components in ({"math": 1.0}, {"math": 1.0, "format": 0.5}):
        file = BytesIO()
        write_png(file, rows(**components), "title")
        pictures.append(file.getvalue())
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert pictures[0] != pictures[1]
