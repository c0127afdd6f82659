"""One run of the slime backend, from an opened folder to the weights it leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from backends.base import Plan
from backends.slime.argv import to_argv
from backends.slime.checkpoints import (
    SlimeCheckpoint,
    go_back,
    newest_checkpoint,
    require_same_shape,
)
from backends.slime.cluster import RayCluster, ray_cluster, require_ray
from backends.slime.exporting import complete_model
from backends.slime.following import LogFollower
from backends.slime.following_metrics import MetricsFollower
from backends.slime.gpus import Cluster
from backends.slime.handover import HANDOVER, handover_document
from backends.slime.job import run_job, stop_left_over
from backends.slime.job_environment import (
    job_environment,
    refuse_credentials,
    run_environment,
)
from backends.slime.launch_spec import SlimeLaunch
from backends.slime.planning import make_plan
from backends.slime.running_failures import training_failure
from backends.slime.running_log import RunLog
from backends.slime.training_rows import BEFORE_STEP
from retrain.compose import check_inputs
from retrain.config import dump_config, redact
from retrain.errors import BackendFailure
from retrain.report.metrics import MetricsLog
from retrain.report.progress import make_progress
from retrain.report.result import RunResult
from retrain.report.run_folder import CONFIG, PLAN, RunFolder

LOG = "slime.log"
"""Everything that slime logs, in the run folder."""

BEGINNING = -1
"""Before iteration 0, which is the evaluation before training."""

Start = Callable[[SlimeLaunch, MetricsFollower], str | None]
"""Runs slime's script to its end; gives what its starter says of a failure, None where it ended
well."""


def run_plan(plan: Plan, *, resume: bool) -> RunResult:
    """Train a plan to its end, or until the user stops it; blocks.

    Everything that can be wrong with the input, and the cluster, is looked at before the run
    folder is made.

    Args:
        plan: What to run.
        resume: Go on from the newest complete checkpoint.

    Raises:
        BackendFailure: slime failed; with its last error and the path of its log.
        KeyboardInterrupt: Ctrl-C before the first checkpoint.
    """
    check_inputs(plan.config)
    refuse_credentials(plan.arguments)
    if plan.config.slime_laptop is not None:
        require_ray()
        _require_checkouts(plan)
        environment = run_environment(plan.config, _run_dir(plan))
        return _run(plan, _start_on_laptop, environment, resume=resume)
    with ray_cluster(plan.config) as cluster:
        planned = _planned_for(plan, cluster)
        environment = job_environment(plan.config, _run_dir(plan))

        def start(launch: SlimeLaunch, follower: MetricsFollower) -> str | None:
            stop_left_over(launch.run_dir, cluster, follower.note)
            end = run_job(launch, cluster, follower.note)
            return None if end.succeeded else end.message

        return _run(planned, start, environment, resume=resume)


def _planned_for(plan: Plan, cluster: RayCluster) -> Plan:
    """The same run, laid out over the GPUs that Ray reports."""
    try:
        gpus = tuple(node.gpus for node in cluster.nodes() if node.gpus)
    except (OSError, ValueError, KeyError) as error:
        raise BackendFailure(f"{cluster.address} does not list its nodes: {error}") from error
    planned = make_plan(plan.config, Cluster(gpus))
    planned.require_runnable()
    return planned


def _require_checkouts(plan: Plan) -> None:
    from backends.slime.laptop.checkouts import find_checkouts

    find_checkouts(plan.config)


def _wait_for_left_over(environment: Mapping[str, str]) -> None:
    from backends.slime.laptop.environment import marks_of
    from backends.slime.laptop.processes import wait_for_left_over

    wait_for_left_over(marks_of(environment))


def _start_on_laptop(launch: SlimeLaunch, follower: MetricsFollower) -> str | None:
    from backends.slime.laptop.running import run_on_laptop

    code = run_on_laptop(launch)
    return f"slime ended with exit code {code}" if code else None


def _run(plan: Plan, start: Start, environment: Mapping[str, str], *, resume: bool) -> RunResult:
    interrupted = False
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder.create(plan.config.output_dir, resume=resume))
        if resume and plan.config.slime_laptop is not None:
            _wait_for_left_over(environment)
        done = _prepare(plan, folder, resume=resume)
        follower = stack.enter_context(_showing(plan, folder, done))
        log = stack.enter_context(_logging(plan, folder))
        launch = SlimeLaunch(
            entry=plan.entry,
            argv=tuple(to_argv(plan.arguments)),
            run_dir=folder.path,
            config=plan.config,
            env=environment,
            on_line=log.line,
        )
        try:
            message = start(launch, follower)
        except KeyboardInterrupt:
            interrupted = True
            folder.log_event("interrupted")
        else:
            if message is not None:
                failure = training_failure(log.follower.failure(), message, folder.path / LOG)
                folder.log_event(str(failure))
                raise failure
    return _result(plan, folder.path, follower.latest, interrupted=interrupted)


def _run_dir(plan: Plan) -> Path:
    return plan.config.output_dir.expanduser().absolute()


def _prepare(plan: Plan, folder: RunFolder, *, resume: bool) -> int:
    """Go back to the checkpoint and write the files; gives the iterations that are done."""
    done = BEGINNING
    if resume:
        require_same_shape(plan, folder.path)
        checkpoint = newest_checkpoint(folder.path)
        done = BEGINNING if checkpoint is None else checkpoint.iteration
        folder.rewind(done)
        go_back(folder.path, checkpoint)
    folder.write_text(CONFIG, dump_config(plan.config))
    folder.write_text(PLAN, json.dumps(redact(dict(plan.arguments)), indent=2) + "\n")
    # JSON is YAML, so slime's loader reads it
    document = handover_document(plan.config, folder.path)
    folder.write_text(HANDOVER, json.dumps(document, indent=2) + "\n")
    return max(done, 0)


@contextmanager
def _showing(plan: Plan, folder: RunFolder, done: int) -> Iterator[MetricsFollower]:
    progress = make_progress()
    progress.start(plan.sizes["iterations"], plan.config.title, completed=done)
    follower = MetricsFollower(folder.metrics, progress)
    follower.start()
    try:
        yield follower
    finally:
        follower.stop()
        progress.stop()


@contextmanager
def _logging(plan: Plan, folder: RunFolder) -> Iterator[RunLog]:
    """Keep slime's log; the rows about training are read from it where slime has another hook."""
    steps = plan.sizes["optimizer_steps_per_iteration"]
    written = plan.arguments.get("custom_megatron_before_train_step_hook_path") == BEFORE_STEP
    with MetricsLog(folder.metrics) as metrics, (folder.path / LOG).open("ab") as file:
        on_row = _written_by_slime if written else metrics.write
        log = RunLog(file, LogFollower(on_row, steps_per_iteration=steps))
        try:
            yield log
        finally:
            log.follower.close()


def _written_by_slime(iteration: int, row: Mapping[str, float]) -> None:
    """`training_rows` has written the row."""


def _result(plan: Plan, run: Path, latest: Mapping[str, float], *, interrupted: bool) -> RunResult:
    if plan.arguments.get("debug_rollout_only"):
        model = Path(str(plan.arguments["hf_checkpoint"]))
        return RunResult(run, model, plan.sizes["iterations"], interrupted, latest)
    checkpoint = _saved(run, interrupted=interrupted)
    return RunResult(
        run_dir=run,
        model_dir=complete_model(checkpoint.model, plan.config),
        iterations=checkpoint.iteration,
        interrupted=interrupted and checkpoint.iteration < plan.sizes["iterations"],
        metrics=latest,
    )


def _saved(run: Path, *, interrupted: bool) -> SlimeCheckpoint:
    checkpoint = newest_checkpoint(run)
    if checkpoint is not None:
        return checkpoint
    if interrupted:
        raise KeyboardInterrupt
    raise BackendFailure(
        f"slime ended well and left no complete checkpoint in {run / 'checkpoints'} (weights, "
        f"Hugging Face weights and state/data-N.json of one rollout); see {run / LOG}"
    )
