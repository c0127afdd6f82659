"""How a run ends: with weights and a result, or with one message that says what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from backends.base import Plan
from backends.local.exporting import ADAPTER, MODEL, merge_adapter, writing
from backends.local.failures import training_failure
from backends.torch.compute.passes import LossNotFinite
from backends.torch.pytorch import PyTorchTrainingBackend
from backends.torch.run.advice import remedy
from backends.torch.run.training import Run
from retrain.errors import BackendFailure, RetrainError
from retrain.launch import Launch
from retrain.report.result import RunResult
from retrain.report.samples import write_samples

FAILED = "failed"
"""Folder of a run that holds the samples that a loss of NaN came from."""


@contextmanager
def failing(plan: Plan, launch: Launch) -> Iterator[None]:
    """Say in one message what ended the run."""
    try:
        yield
    except RetrainError:
        raise
    except Exception as error:
        run = plan.config.output_dir
        raise training_failure(error, "torch", launch, run, lambda: remedy(plan)) from error


def with_samples(error: LossNotFinite, run: Run) -> BackendFailure:
    """Write out the samples that a loss of NaN came from, and say where they are."""
    folder = Path(run.plan.config.output_dir) / FAILED
    folder.mkdir(exist_ok=True)
    path = folder / f"step-{run.backend.step}.jsonl"
    count = write_samples(path, error.samples, decode=run.composition.renderer.decode)
    return BackendFailure(f"{error} ({count} of them are in {path})")


async def save_final(plan: Plan, backend: PyTorchTrainingBackend) -> None:
    """Write the trained weights into the run folder; of an adapter, it and the merged model."""
    run, model = plan.config.output_dir, plan.config.model
    if model.peft is None:
        await backend.save_weights(run / MODEL)
        return
    adapter = await backend.save_weights(run / ADAPTER, merge=False)
    with writing(run / MODEL) as folder:
        merge_adapter(model, adapter, folder)


def make_result(
    plan: Plan, backend: PyTorchTrainingBackend, metrics: Mapping[str, float]
) -> RunResult:
    """What a run left.

    Args:
        plan: What was run.
        backend: Has counted its steps.
        metrics: The last value of each.
    """
    run: Path = plan.config.output_dir
    iterations = backend.step // plan.sizes["optimizer_steps_per_iteration"]
    return RunResult(
        run_dir=run,
        model_dir=run / MODEL,
        iterations=iterations,
        interrupted=iterations < plan.sizes["iterations"],
        metrics=metrics,
    )
