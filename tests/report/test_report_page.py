"""`report.html`: self-contained, inert whatever stands in the run, and true to the metrics."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import record
from typer.testing import CliRunner

from retrain.cli.main import app
from retrain.report.page.chart import Line, chart
from retrain.report.page.markup import Html, element
from retrain.report.page.writing import write_report
from retrain.report.run_folder import CONFIG
from retrain.report.series import Series

VOID = {"meta", "line", "path", "circle", "rect"}
CONTROLS = set(map(chr, [*range(0x20), *range(0x7F, 0xA0)])) - {"\n", "\t"}
BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Read(HTMLParser):
    """The elements, attributes and texts of a page; complains where they do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            raise AssertionError(f"<{tag}/> is no empty element")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("report") / "run")


def report(*words: object) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_a_page_says_what_the_run_was_and_came_to(run: Path) -> None:
    text = Read(write_report(run).read_text()).text
    for said in (
        "recorded stopped early",
        "trl · grpo · calculator · tiny · iteration 4 of 4",
        "0.500 → 0.500",
        "16",
        "4 failed (25.0%)",
        "rollout/failed/tool",
        "best",
        f"retrain train {run / CONFIG} --set output_dir={run}-again",
        "python",
        "num_iterations",
    ):
        assert said in text, said


def test_a_page_holds_no_script_and_loads_nothing(run: Path) -> None:
    page = write_report(run).read_text()
    read = Read(page)
    assert not read.names & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]
    assert not [name for _, name, _ in read.attributes if name in ("src", "href", "srcset")]
    assert not re.search(r"url\(|@import|https?://", page)
    policy = [value for tag, name, value in read.attributes if (tag, name) == ("meta", "content")]
    assert "default-src 'none'; style-src 'unsafe-inline'" in str(policy[0])


def test_hostile_texts_are_shown_and_do_nothing(run: Path) -> None:
    page = write_report(run).read_text()
    assert not set(page) & (CONTROLS | BIDI)
    text = Read(page).text
    assert text.count("<script>fetch('//evil')</script></style><img src=x onerror=alert(1)>") >= 4
    assert "\\x1b[31mred" in text and "\\u202eesrever" in text


def test_tokens_are_coloured_by_mask(run: Path) -> None:
    page = write_report(run).read_text()
    assert '<span class="trained">&lt;call&gt;3+4</span>' in page
    assert '<span class="given">=7</span>' in page


def test_runs_are_compared_side_by_side(run: Path, tmp_path: Path) -> None:
    other = record(
        tmp_path / "run", backend="slime", iterations=3, settings={"env_specific_config": {"n": 2}}
    )
    page = tmp_path / "both.html"
    done = report(run, other, "--to", page)
    assert (done.exit_code, done.stdout.strip()) == (0, str(page))
    read = Read(page.read_text())
    assert "2 runs side by side" in read.text
    assert "algorithm.backendtrlslime" in read.text
    assert "environment.env_specific_config.n-2" in read.text
    assert "environment.type" not in read.text, "what is the same is left out"
    labels = [value for _, name, value in read.attributes if name == "aria-label"]
    reward = next(label for label in labels if label and label.startswith("reward: "))
    assert "trl goes from 0.5 to 0.5 over 4 points; slime goes from 0.5 to 0.5 over 3" in reward


def test_what_cannot_be_read_is_named_on_the_page(tmp_path: Path) -> None:
    run = record(tmp_path / "run", iterations=2)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": "three"}\n{"iteration": 3, "rew')
    (run / "samples" / "2.jsonl").write_text("nonsense\n")
    done = report(run)
    assert done.exit_code == 0
    text = Read((run / "report.html").read_text()).text
    assert "2 of its parts could not be read" in text
    assert 'line 5: expected "iteration" to be a whole number' in text
    assert "samples/2.jsonl, line 1: not valid JSON" in text


def test_a_run_without_samples_has_a_page_too(tmp_path: Path) -> None:
    run = record(tmp_path / "run", iterations=1)
    (run / "samples" / "1.jsonl").unlink()
    assert "No samples are recorded yet." in Read(write_report(run).read_text()).text


def test_a_run_of_a_newer_retrain_is_said_on_the_page(tmp_path: Path) -> None:
    run = record(tmp_path / "run", iterations=1)
    file = run / "provenance.jsonl"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}) + "\n")
    assert "has format 99" in Read(write_report(run).read_text()).text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "nowhere does not exist; name a run folder"),
        ((".",), "holds no run"),
        (("fresh",), "neither metrics nor samples are recorded yet"),
        (("run", "run"), "run is named twice"),
        (("run", "--to", "none/page.html"), "none/page.html: cannot be written: No such file"),
    ],
)
def test_bad_input_is_one_clear_error(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "run", iterations=1)
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "config.yaml").write_text("experiment_name: fresh\n")
    done = report(*words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_long_text_does_not_make_a_large_page(tmp_path: Path) -> None:
    run = record(tmp_path / "run", iterations=1, hostile="<" * 30_000)
    page = write_report(run)
    assert page.stat().st_size < 400_000
    assert "shortened, 30,001 characters" in Read(page.read_text()).text


def test_text_is_escaped_unless_it_was_made_here() -> None:
    made = element("b", "<i>", Html("<u></u>"), None, title='"><script>')
    assert made == '<b title="&quot;&gt;&lt;script&gt;">&lt;i&gt;<u></u></b>'


def drawn(values: list[float], **how: Any) -> str:
    series = Series(tuple(range(len(values))), tuple(values))
    return chart([Line("it", series, 1)], Html("t"), "t", width=100, height=50, **how)


@pytest.mark.parametrize(
    "values", [[1.0], [0.0, 0.0], [-5.0, 1e9], [1e-12, 3e-12], [7.0] * 5, [0.1 + 0.2, 0.3]]
)
@pytest.mark.parametrize("log", [False, True])
def test_every_series_can_be_drawn(values: list[float], log: bool) -> None:
    figure = drawn(values, log=log)
    Read(figure)
    assert "nan" not in figure
    for y in re.findall(r'c?y="([^"]+)"', figure):
        assert -1 <= float(y) <= 51, figure


def test_a_chart_without_values_is_left_out() -> None:
    assert drawn([]) == ""


def test_thinning_keeps_every_peak() -> None:
    values = [0.0] * 5000
    values[1234] = 1.0
    (path,) = re.findall(r'd="M([^"]+)" class="draw-1 raw"', drawn(values))
    places = [tuple(map(float, point.split())) for point in path.split("L")]
    assert len(places) < 700
    assert min(y for _, y in places) == 8.0


def test_the_smoothing_of_a_long_run_follows_its_values() -> None:
    figure = drawn([step / 5000 for step in range(5000)])
    (path,) = re.findall(r'd="M([^"]+)" class="draw-1"', figure)
    places = [tuple(map(float, point.split())) for point in path.split("L")]
    assert 200 < len(places) <= 300
    assert places[0][1] > 26 > 10 > places[-1][1], "it rises to the end"
