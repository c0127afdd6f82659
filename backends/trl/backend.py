"""The TRL backend: one process, one machine."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backends.base import Plan, Problem, Severity
from backends.recorder import RunRecorder
from backends.trl.checkpoints import Checkpoint, newest_checkpoint
from retrain.compose import compose, load_tokenizer, make_tasks
from retrain.config import RunConfig, dump_config, redact
from retrain.errors import BackendFailure, MissingDependency, RetrainError, RunFolderError
from retrain.report.progress import make_progress
from retrain.report.result import RunResult
from retrain.report.run_folder import CONFIG, PLAN, RunFolder
from retrain.types import Task

if TYPE_CHECKING:
    from backends.trl.session import Session

TESTED = "1.16.0"
"""The TRL release whose private methods the trainer extends."""

BEGINNING = -1
"""Before iteration 0, which is the evaluation before training."""

INSTALL = "pip install 'retrain[trl]'"


class TRLBackend:
    """Trains with TRL's `GRPOTrainer` and `SFTTrainer`, in this process."""

    name = "trl"

    def check(self) -> list[Problem]:
        """Say what is missing on this machine."""
        missing = [name for name in ("torch", "transformers", "trl") if find_spec(name) is None]
        if missing:
            return [Problem("", f"{', '.join(missing)} is not installed; {INSTALL}")]
        try:
            found = version("trl")
        except PackageNotFoundError:
            return [Problem("", f"trl is importable but not installed; {INSTALL}")]
        if found == TESTED:
            return []
        message = f"trl {found} is installed; tested with {TESTED} (pip install trl=={TESTED})"
        return [Problem("", message, Severity.WARNING)]

    def plan(self, config: RunConfig) -> Plan:
        """Say exactly what TRL will receive."""
        self._require_packages()
        from backends.trl.planning import make_plan

        return make_plan(config)

    def train(self, plan: Plan, *, resume: bool = False) -> RunResult:
        """Train a plan to its end, or until Ctrl-C; see `Backend.train`."""
        self._require_packages()
        plan.require_runnable()
        from backends.trl.quiet import quiet_frameworks

        with quiet_frameworks():
            return _train(plan, resume=resume)

    def export(self, run: Path, to: Path) -> Path:
        """Copy the newest Hugging Face weights of a run."""
        checkpoint = newest_checkpoint(run / "checkpoints")
        source = run / "model"
        if not source.is_dir() and checkpoint is not None:
            source = checkpoint.path
        if not source.is_dir():
            raise RunFolderError(f"{run}: holds no weights yet (no model/, no complete checkpoint)")
        if to.exists():
            raise RunFolderError(f"{to}: exists already; choose another folder to export to")
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("*.pt", "*.pth", "*.bin"))
        return to

    def _require_packages(self) -> None:
        errors = [problem for problem in self.check() if problem.severity is Severity.ERROR]
        if errors:
            raise MissingDependency(str(errors[0]))


def _train(plan: Plan, *, resume: bool) -> RunResult:
    import torch

    from backends.trl.session import Session
    from retrain.engine.transformers_loading import load_model

    config = plan.config
    if config.model.threads is not None:
        torch.set_num_threads(config.model.threads)
    composition = compose(config)
    tasks = make_tasks(config)
    tokenizer = load_tokenizer(config)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = composition.renderer.pad_token_id
    with RunFolder.create(config.output_dir, resume=resume) as folder:
        checkpoint = _rewind(folder, plan) if resume else None
        model = load_model(config.model)
        folder.write_text(CONFIG, dump_config(config))
        folder.write_text(PLAN, json.dumps(redact(plan.arguments), indent=2) + "\n")
        recorder = RunRecorder(folder, make_progress(), composition.renderer.decode)
        return _run(Session(plan, composition, model, tokenizer, recorder, checkpoint), tasks)


def _rewind(folder: RunFolder, plan: Plan) -> Checkpoint | None:
    checkpoint = newest_checkpoint(folder.checkpoints)
    steps = plan.sizes["optimizer_steps_per_iteration"]
    folder.rewind(BEGINNING if checkpoint is None else checkpoint.step // steps)
    return checkpoint


def _run(session: Session, tasks: Sequence[Task]) -> RunResult:
    from backends.trl.grpo import train_grpo
    from backends.trl.sft import train_sft

    plan, recorder = session.plan, session.recorder
    steps, total = plan.sizes["optimizer_steps_per_iteration"], plan.sizes["iterations"]
    done = 0 if session.checkpoint is None else session.checkpoint.step // steps
    recorder.progress.start(total, plan.config.title, completed=done)
    train = train_sft if plan.entry == "trl.SFTTrainer" else train_grpo
    try:
        trainer = train(session, tasks)
    except RetrainError:
        raise
    except (RuntimeError, OSError, ValueError) as error:
        recorder.folder.log_event(traceback.format_exc())
        raise BackendFailure(
            f"TRL: {type(error).__name__}: {error} (traceback in {recorder.folder.events})"
        ) from error
    finally:
        recorder.progress.stop()
        recorder.close()
    iterations = trainer.state.global_step // steps
    model_dir = recorder.folder.path / "model"
    trainer.save_model(str(model_dir))
    return RunResult(
        run_dir=recorder.folder.path,
        model_dir=model_dir,
        iterations=iterations,
        interrupted=iterations < total,
        metrics=dict(recorder.latest),
    )
