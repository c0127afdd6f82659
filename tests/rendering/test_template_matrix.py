"""No template of trl's is rendered wrongly in any situation; docs/templates.md says how each is."""

from collections import Counter
from pathlib import Path

import pytest
from template_matrix import SITUATIONS, judge_all, page

pytestmark = pytest.mark.timeout(1200)  # a busy machine takes long over 72 templates
PAGE = Path(__file__).parents[2] / "docs" / "templates.md"


@pytest.fixture(scope="module")
def judged(pytestconfig: pytest.Config) -> tuple:
    assert pytestconfig.cache is not None
    return judge_all(Path(pytestconfig.cache.mkdir("tokenizers")), conversations=2)


def test_no_cell_is_wrong(judged: tuple) -> None:
    results, _ = judged
    wrong = {
        (name, situation.name): verdict.wrong
        for name, row in results.items()
        for situation, verdict in zip(SITUATIONS, row, strict=True)
        if verdict.wrong
    }
    assert not wrong
    assert Counter(v.word for row in results.values() for v in row)["exact"] >= 608


def test_every_refusal_has_a_reason_and_no_exact_part(judged: tuple) -> None:
    results, _ = judged
    for row in results.values():
        for verdict in row:
            assert bool(verdict.refused) is (verdict.exact == 0)


def test_the_page_shows_what_is_judged(judged: tuple) -> None:
    def table(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith("| ")]

    assert table(PAGE.read_text("utf-8")) == table(page(*judged, 2)), (
        "write it anew: python tests/rendering/template_matrix.py docs/templates.md"
    )
