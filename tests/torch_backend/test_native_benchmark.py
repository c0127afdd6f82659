"""`benchmarks/native_step.py` measures the same step on both sides."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
pytestmark = pytest.mark.slow


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import native_step

    yield native_step
    for name in ("native_step", "native_step_trl", "native_step_work", "multiturn_model"):
        sys.modules.pop(name, None)


def test_both_sides_have_one_loss(benchmark: Any, tmp_path: Path) -> None:
    from native_step_trl import train_trl
    from native_step_work import PRESETS, make_model

    from backends.torch.compute.passes import PassSettings, forward_backward
    from backends.torch.objective import PolicyObjective
    from backends.torch.processes.ranks import Ranks

    work, calls = PRESETS["tiny"](), []
    theirs = train_trl(
        work,
        1,
        cuda=False,
        half=False,
        begin=lambda: calls.append("begin"),
        end=lambda: calls.append("end"),
    )
    rows = work.batch().rows
    ours = forward_backward(make_model(work), rows, PolicyObjective(), PassSettings(), Ranks())
    assert calls == ["begin", "end"]
    assert theirs == pytest.approx(ours["train/loss"], rel=1e-3)


def test_it_prints_the_ratio_of_each_side(
    benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    benchmark.main(["--preset", "tiny", "--steps", "1", "--dtype", "bfloat16"])
    torch.set_num_threads(threads)
    lines = capsys.readouterr().out.splitlines()
    found = [re.match(r"(.+?) +[\d.]+ s of CPU +[\d,]+ tokens/s +ratio [\d.]+", n) for n in lines]
    assert [line[1] for line in found if line] == ["trl", "native, padded", "native, packed"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["--device", "cuda", "--dtype", "bfloat16", "--preset", "0.5b"])
    assert "torch sees no GPU here" in capsys.readouterr().err
