import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.errors import DataError, MissingDependency
from retrain.report.curve import experiment_name, plot_curve
from retrain.report.metrics import MetricRow, MetricsLog
from retrain.report.series import Series

PNG = b"\x89PNG\r\n\x1a\n"


def write_run(folder: Path, rows: list[tuple[int, dict[str, float]]]) -> Path:
    with MetricsLog(folder / "metrics.jsonl") as log:
        for iteration, values in rows:
            log.write(iteration, values)
    return folder


def size(picture: Path) -> tuple[int, int]:
    data = picture.read_bytes()
    assert data.startswith(PNG)
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


@pytest.mark.parametrize(
    "rows",
    [
        [(0, {"eval/success": 0.2}), (1, {"reward/mean": 0.5, "success": 0.4})],
        [(i, {"reward/mean": 40.0 * i, "success": 0.1 * i}) for i in range(1, 9)],
        [(i, {"reward/mean": -1.0, "train/logprob_abs_diff": 0.0}) for i in range(1, 9)],
        [
            (i, {"success": 1.0, "response/tokens": 20, "train/logprob_abs_diff": 1e-7})
            for i in (1, 2)
        ],
    ],
)
def test_whatever_a_run_measured_becomes_a_picture(
    tmp_path: Path, rows: list[tuple[int, dict[str, float]]]
) -> None:
    picture = plot_curve(write_run(tmp_path, rows))
    assert picture == tmp_path / "curve.png"
    assert size(picture) == (1440, 1024)


def test_drawing_uses_no_global_matplotlib_state(tmp_path: Path) -> None:
    write_run(tmp_path, [(1, {"reward/mean": 1.0})])
    code = (
        "import sys; from pathlib import Path; import retrain.report.curve as c;"
        "assert 'matplotlib' not in sys.modules;"
        "c.plot_curve(Path(sys.argv[1]));"
        "import matplotlib;"
        "assert 'matplotlib.pyplot' not in sys.modules;"
        "assert not matplotlib.rcParams['axes.grid']"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_without_matplotlib_the_error_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, [(1, {"reward/mean": 1.0})])
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "retrain.report.curve_panels", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependency, match=r'pip install "retrain\[plot\]"'):
        plot_curve(tmp_path)
    assert not (tmp_path / "curve.png").exists()


def test_a_run_with_nothing_to_draw_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, [(1, {"train/grad_norm": 1.0, "reward/mean": float("nan")})])
    with pytest.raises(DataError, match=r"holds none of reward/mean, .* to draw yet"):
        plot_curve(tmp_path)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("experiment_name: my run $x$\n", "my run $x$"),
        ("seed: 1\n", "folder"),
        ("a: [\n", "folder"),
        (None, "folder"),
    ],
)
def test_the_title_is_the_experiments_name(tmp_path: Path, config: str | None, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if config is not None:
        (folder / "config.yaml").write_text(config)
    assert experiment_name(folder) == name


def test_a_series_keeps_the_last_value_of_an_iteration_and_skips_nulls() -> None:
    values: list[tuple[int, float | None]] = [(2, 0.5), (1, 0.1), (2, 0.7), (3, None)]
    rows = [MetricRow(iteration, 0.0, {"success": value}) for iteration, value in values]
    assert Series.of(rows, "success") == Series((1, 2), (0.1, 0.7))
    assert not Series.of(rows, "reward/mean")


def test_smoothing_leaves_a_straight_line_as_it_is() -> None:
    line = Series(tuple(range(100)), tuple(3.0 * i - 5 for i in range(100)))
    assert line.smoothed() == pytest.approx(line.values)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_smoothing_stays_within_the_values(values: list[float]) -> None:
    smoothed = Series(tuple(range(len(values))), tuple(values)).smoothed()
    assert len(smoothed) == len(values)
    assert min(values) <= min(smoothed) <= max(smoothed) <= max(values)


def test_a_supervised_run_shows_its_loss(tmp_path: Path) -> None:
    write_run(tmp_path, [(i, {"train/loss": 3.0 / i}) for i in range(1, 20)])
    assert plot_curve(tmp_path).stat().st_size > 10_000
