"""The page, the curve and the viewer of runs that hold what nobody expects."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from recorded_runs import record

from retrain.report.curve import plot_curve
from retrain.report.metrics import MetricsLog, read_metrics
from retrain.report.page.writing import write_report
from retrain.report.record import read_record
from retrain.report.run_folder import CONFIG, METRICS
from retrain.report.series import Series
from retrain.view.following import Following
from retrain.view.packing import pack
from retrain.view.runs import find_runs
from retrain.view.single_file import single_page


def test_values_near_the_largest_float_are_left_out(tmp_path: Path) -> None:
    names = ("reward/mean", "success", "train/loss", "response/tokens", "train/logprob_abs_diff")
    with MetricsLog(tmp_path / METRICS) as log:
        for iteration, value in enumerate([0.25, 1e301, 1.7e308, -1.7e308, 0.75]):
            log.write(iteration, {"eval/success": 0.5, **dict.fromkeys(names, value)})
    rows = read_metrics(tmp_path / METRICS)
    assert {Series.of(rows, name).values for name in names} == {(0.25, 0.75)}
    assert plot_curve(tmp_path).stat().st_size > 10_000
    assert "<svg" in write_report(tmp_path).read_text()


@pytest.mark.parametrize(
    "config",
    [
        "algorithm: &a\n  hyperparameters: *a\n",
        "experiment_name: &a [*a]\n",
        "experiment_name: " + "[" * 1000,
        "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(20)),
    ],
    ids=["mapping", "list", "deep", "many"],
)
def test_a_configuration_without_an_end_is_named_and_left_out(tmp_path: Path, config: str) -> None:
    run = record(tmp_path / "run", iterations=2)
    (run / CONFIG).write_text(config)
    assert "cannot be read (it nests" in " ".join(read_record(run).problems)
    assert plot_curve(run).exists()
    assert "its settings are not known" in write_report(run).read_text()


def test_an_alias_that_ends_is_a_setting_like_any_other(tmp_path: Path) -> None:
    run = record(tmp_path / "run", iterations=2)
    (run / CONFIG).write_text("experiment_name: aliased\na: &a {size: 7}\nb: *a\n")
    written = read_record(run)
    assert written.problems == ()
    assert (written.setting("a", "size"), written.setting("b", "size")) == (7, 7)


def test_a_folder_whose_name_is_no_utf_8_is_reported_and_viewed(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xff\xfen"))
    record(folder, iterations=2)
    (folder / CONFIG).unlink()
    page = write_report(folder).read_bytes().decode()
    assert r"r\udcff\udcfen" in page
    places = find_runs(folder)
    assert [place.name for place in places] == [r"r\udcff\udcfen"]
    assert os.fsencode(Following(places[0]).place.folder).endswith(b"r\xff\xfen")
    shown = single_page(pack(places, "odd", 10)).encode().decode()
    block = shown.split('id="packed">')[1].split("</script>")[0]
    assert json.loads(block)["runs"][0]["run"]["folder"].endswith(r"r\udcff\udcfen")
