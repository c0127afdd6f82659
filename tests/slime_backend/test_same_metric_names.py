"""All backends log the same names, and docs/metrics.md has each of them."""

from __future__ import annotations

import asyncio
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.following import TRAIN_METRICS, LogFollower
from backends.slime.regrouping import groups_of
from backends.slime.samples import flat
from retrain.compose import compose
from retrain.launch import Launch
from retrain.report.filling_metrics import only_filling
from retrain.report.metric_docs import render
from retrain.report.metric_names import METRICS, metric_named
from retrain.report.metrics import MetricsLog, read_metrics
from retrain.report.progress import PlainProgress
from retrain.report.run_folder import RunFolder
from retrain.report.samples import read_samples

ROOT = Path(__file__).parents[2]
HELD_OUT = [{"id": "h", "prompt": "q"}, {"id": "b", "prompt": "q", "broken": "step"}]
SECTIONS = {
    "evaluation": {"prompt_source": {"type": "list", "source_config": {"items": HELD_OUT}}},
    "rollout": {
        "engine": "plugin_world:scripted",
        "over_sampling_factor": 2.0,
        "max_failure_rate": 1.0,
    },
}

ONLY_HERE = {"train/logprob_abs_diff_current"}
"""What slime does not measure: the gap of what the present weights wrote of a batch."""


def names(path: Path) -> set[str]:
    return {name for row in read_metrics(path) for name in row.values}


@pytest.fixture
def rolled_out(slime_config: Any, slime_args: Any) -> Any:
    """A configuration, and the samples of a rollout and of an evaluation, as slime has them."""
    rows = [{"id": f"t{n}", "prompt": "q"} for n in range(4)]
    rows += [{"id": "b", "prompt": "q", "broken": "step"}]
    config = slime_config(sections=SECTIONS, rows=rows)
    args = slime_args(config)
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    evaluated = plugin.eval_rollout(args, 0, None, evaluation=True)
    return config, args, output, evaluated


def slime_logs(args: Any, output: Any, evaluated: Any, metrics: Path) -> set[str]:
    """What the slime backend writes of them, with one optimizer step in slime's own words."""
    plugin.log_rollout(0, args, list(flat(output.samples)), output.metrics, 1.0)
    plugin.log_eval(0, args, evaluated.data, evaluated.metrics)
    with MetricsLog(metrics) as log:
        follower = LogFollower(log.write)
        values = ", ".join(f"'train/{name}': 0.5" for name in TRAIN_METRICS)
        follower.line(f"step 0: {{{values}}}")
        follower.line("perf 0: {'perf/actor_train_time': 1.0}")
    return names(metrics)


def trl_logs(config: Any, output: Any, folder: Path) -> set[str]:
    """What the TRL backend writes of the episodes that slime has written, with a step of TRL's."""
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[trl]'")
    from backends.recorder import RunRecorder
    from backends.trl.callback import TRAIN_METRICS as TRL_METRICS
    from backends.trl.callback import IterationCallback

    composition = compose(config)

    def groups(name: str) -> Any:
        written = read_samples(config.output_dir / "samples" / name)
        return groups_of(list(written), composition.data_format)

    with RunFolder.create(folder, resume=False) as run:
        recorder = RunRecorder(run, PlainProgress(StringIO()), composition.renderer.decode)
        interrupt: Any = SimpleNamespace(requested=False)
        callback = IterationCallback(recorder, interrupt, Launch(), steps_per_iteration=1)
        recorder.collected(1, groups("1.jsonl"), [], 1.0, only_filling(output.metrics))
        state, control = SimpleNamespace(global_step=1), SimpleNamespace()
        callback.on_step_begin(None, state, control)
        callback.on_step_end(None, state, control)
        callback.on_log(None, state, control, dict.fromkeys(TRL_METRICS, 0.5))
        recorder.evaluated(1, groups("eval-1.jsonl"), [], 1.0)
        recorder.close()
    return names(folder / "metrics.jsonl")


def torch_logs(config: Any, output: Any, folder: Path) -> set[str]:
    """What the torch backend writes of them, with a real step of a small model."""
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[torch]'")
    from native_step_metrics import metrics_of_a_step

    from backends.base import Plan
    from backends.recorder import RunRecorder
    from backends.torch.run.run_watch import RunWatch

    composition = compose(config)

    def groups(name: str) -> Any:
        written = read_samples(config.output_dir / "samples" / name)
        return groups_of(list(written), composition.data_format)

    with RunFolder.create(folder, resume=False) as run:
        recorder = RunRecorder(run, PlainProgress(StringIO()), composition.renderer.decode)
        recorder.collected(1, groups("1.jsonl"), [], 1.0, only_filling(output.metrics))
        plan = Plan("torch", config, "", {}, {"iterations": 2}, ())
        interrupt: Any = SimpleNamespace(requested=False)
        watch = RunWatch(plan, Any, recorder, interrupt, Any)
        asyncio.run(watch.after(1, metrics_of_a_step(folder)))
        recorder.evaluated(1, groups("eval-1.jsonl"), [], 1.0)
        recorder.close()
    return names(folder / "metrics.jsonl")


def test_all_backends_log_the_same_names(rolled_out: Any, tmp_path: Path) -> None:
    config, args, output, evaluated = rolled_out
    slime = slime_logs(args, output, evaluated, config.output_dir / "metrics.jsonl")
    trl = trl_logs(config, output, tmp_path / "trl")
    assert trl - slime == ONLY_HERE
    assert torch_logs(config, output, tmp_path / "torch") == trl
    assert slime - trl == set()
    assert {"reward/environment", "rollout/failed/environment", "rollout/dropped"} <= slime
    assert {"eval/success", "train/seconds", "train/kl"} <= slime


def test_every_name_that_is_logged_is_documented(rolled_out: Any, tmp_path: Path) -> None:
    config, args, output, evaluated = rolled_out
    slime = slime_logs(args, output, evaluated, config.output_dir / "metrics.jsonl")
    trl = trl_logs(config, output, tmp_path / "trl")
    assert [name for name in sorted(slime | trl) if metric_named(name) is None] == []


def test_the_page_of_the_names_is_up_to_date() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert page == render(), "run: python -m retrain.report.metric_docs"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("reward/mean", "reward/mean"),
        ("reward/exact_match", "reward/COMPONENT"),
        ("reward/failed/judge/timeout", "reward/failed/COMPONENT/REASON"),
        ("reward/judge/failures/timeout", "reward/COMPONENT/COUNT"),
        ("rollout/engine_seconds", "rollout/KIND_seconds"),
        ("rollout/failed/tool", "rollout/failed/BOUNDARY"),
        ("eval/success", "eval/success"),
        ("eval/pass@8", "eval/pass@K"),
        ("eval/rollout/failed/tool", "rollout/failed/BOUNDARY"),
        ("train/loss", "train/loss"),
    ],
)
def test_a_name_is_found_in_the_table(name: str, row: str) -> None:
    found = metric_named(name)
    assert found is not None and found.name == row


@pytest.mark.parametrize("name", ["loss", "train/lossy", "rollout/made/up/name", "eval/pass@k"])
def test_what_is_not_in_the_table_is_not_found(name: str) -> None:
    assert metric_named(name) is None


def test_no_row_stands_twice() -> None:
    assert len({row.name for row in METRICS}) == len(METRICS)
