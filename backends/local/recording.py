"""The run folder of a run in this process, from its opening to its end."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backends.base import Plan
from backends.local.adapters import require_same_adapter
from backends.local.checkpoints import Checkpoint, require_same_model
from backends.local.exporting import set_aside
from backends.recorder import RunRecorder
from retrain.compose import Composition
from retrain.config import dump_config, redact
from retrain.report.progress import make_progress
from retrain.report.run_folder import CONFIG, PLAN, RunFolder

BEGINNING = -1
"""Before iteration 0, which is the evaluation before training."""

STOPPING = "stopping after this iteration, with a checkpoint; press Ctrl-C again to stop now"

FindCheckpoint = Callable[[Plan], Checkpoint | None]
"""Gives the checkpoint to go on from, having refused one that the plan cannot go on from."""


@contextmanager
def recording(
    plan: Plan, composition: Composition, find_checkpoint: FindCheckpoint, *, resume: bool
) -> Iterator[RunRecorder]:
    """Open the run folder, and go back to its checkpoint.

    Args:
        plan: What is run.
        composition: Decodes what is recorded.
        find_checkpoint: Asked on a resume, when the folder is this process's own.
        resume: Go on in a folder that is there.
    """
    config = plan.config
    with RunFolder.create(config.output_dir, resume=resume) as folder:
        checkpoint = find_checkpoint(plan) if resume else None
        steps = plan.sizes["optimizer_steps_per_iteration"]
        done = BEGINNING if checkpoint is None else checkpoint.step // steps
        if resume:
            folder.rewind(done)
            set_aside(config.output_dir)
        folder.write_text(CONFIG, dump_config(config))
        folder.write_text(PLAN, json.dumps(redact(plan.arguments), indent=2) + "\n")
        recorder = RunRecorder(folder, make_progress(), composition.renderer.decode)
        try:
            recorder.progress.start(plan.sizes["iterations"], config.title, completed=max(done, 0))
            yield recorder
        except (RuntimeError, OSError, ValueError):
            folder.log_event(traceback.format_exc())
            raise
        finally:
            recorder.progress.stop()
            recorder.close()


def require_own_model(plan: Plan, checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint of another model, or of another adapter, than the plan's.

    Raises:
        ConfigError: Naming what differs.
    """
    require_same_model(plan.config, checkpoint)
    require_same_adapter(plan.config.model.peft, checkpoint.path)
