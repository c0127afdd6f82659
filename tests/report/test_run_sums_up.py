"""At the end of every run, however it ends, the folder holds the report and the curve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import record

from backends.base import Plan
from backends.registry import BACKENDS
from retrain import training
from retrain.config import RunConfig
from retrain.errors import BackendFailure
from retrain.report.result import RunResult
from retrain.report.run_folder import RunFolder, append_event

End = Callable[[Path], RunResult]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[End], RunResult]:
    """Trains with a backend that records two iterations, and then ends as it is told."""

    def train_until(end: End) -> RunResult:
        class Recording:
            name = "recording"

            def plan(self, config: RunConfig) -> Plan:
                return Plan("recording", config, "nothing", {}, {"iterations": 4})

            def train(self, plan: Plan, *, resume: bool = False) -> RunResult:
                record(plan.config.output_dir, iterations=2)
                return end(plan.config.output_dir)

        monkeypatch.setitem(BACKENDS._objects, "recording", Recording)
        return training.train(_config(tmp_path / "run"))

    monkeypatch.setattr(training, "check_inputs", lambda config: None)
    return train_until


def _config(folder: Path) -> RunConfig:
    algorithm: dict[str, Any] = {
        "name": "grpo",
        "backend": "recording",
        "hyperparameters": {"num_iterations": 4},
    }
    return RunConfig.model_validate(
        {
            "experiment_name": "ends",
            "output_dir": str(folder),
            "model": {"name_or_path": "tiny"},
            "environment": {"type": "calculator"},
            "prompt_source": {"type": "list", "source_config": {"items": ["hello"]}},
            "algorithm": algorithm,
        }
    )


def result(folder: Path, *, interrupted: bool = False) -> RunResult:
    return RunResult(folder, folder / "model", 2 if interrupted else 4, interrupted)


def test_a_run_that_ends_well_is_finished(run: Any, tmp_path: Path) -> None:
    run(result)
    page = (tmp_path / "run" / "report.html").read_text()
    assert '<span class="chip finished">finished</span>' in page
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_run_is_summed_up_as_far_as_it_came(run: Any, tmp_path: Path) -> None:
    run(lambda folder: result(folder, interrupted=True))
    page = (tmp_path / "run" / "report.html").read_text()
    assert "stopped early" in page and "iteration 2 of 2" in page


@pytest.mark.parametrize("error", [BackendFailure("out of memory"), KeyboardInterrupt()])
def test_a_run_that_fails_is_summed_up_and_fails(
    run: Any, tmp_path: Path, error: BaseException
) -> None:
    def fail(folder: Path) -> RunResult:
        append_event(folder, "the GPU is on fire")
        raise error

    with pytest.raises(type(error)):
        run(fail)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "stopped early" in page and "the GPU is on fire" in page
    assert (tmp_path / "run" / "curve.png").exists()


def test_the_report_of_another_run_in_the_folder_is_left_alone(run: Any, tmp_path: Path) -> None:
    record(tmp_path / "run", iterations=1)
    from retrain.errors import RunFolderError

    with pytest.raises(RunFolderError):
        run(result)
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_page_that_cannot_be_written_does_not_fail_the_run(run: Any, tmp_path: Path) -> None:
    def end(folder: Path) -> RunResult:
        (folder / "report.html").mkdir()
        return result(folder)

    with pytest.warns(UserWarning, match=r"no report was written: .*report\.html"):
        assert run(end).iterations == 4
    with RunFolder.create(tmp_path / "run", resume=True):
        pass
