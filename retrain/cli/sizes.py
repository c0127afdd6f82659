"""The sizes of a plan, each with the arithmetic that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.base import Plan


def explained_sizes(plan: Plan) -> dict[str, str]:
    """Each size of a plan as text: the number, and how it follows from the configuration."""
    return {name: _explained(plan, name, value) for name, value in plan.sizes.items()}


def _explained(plan: Plan, name: str, value: int) -> str:
    how = _ARITHMETIC.get(name, _nothing)(plan)
    return f"{value} = {how}" if how else str(value)


def _nothing(plan: Plan) -> str:
    return ""


def _iterations(plan: Plan) -> str:
    hyper = plan.config.algorithm.hyperparameters
    if hyper.num_iterations is not None:
        return "num_iterations"
    return f"num_epochs {hyper.num_epochs} x tasks / batch, rounded up"


def _rollouts(plan: Plan) -> str:
    hyper = plan.config.algorithm.hyperparameters
    if plan.config.algorithm.name == "sft":
        return "global_batch_size (one optimizer step)"
    return (
        f"rollout_batch_size {hyper.rollout_batch_size} x "
        f"n_samples_per_prompt {hyper.n_samples_per_prompt}"
    )


def _per_step(plan: Plan) -> str:
    return "global_batch_size"


def _steps_per_iteration(plan: Plan) -> str:
    rollouts, batch = (
        plan.sizes["rollouts_per_iteration"],
        plan.sizes["rollouts_per_optimizer_step"],
    )
    passes = plan.sizes["optimizer_steps_per_iteration"] * batch // rollouts
    times = f" x {passes} passes over each rollout" if passes != 1 else ""
    return f"{rollouts} rollouts / {batch} per optimizer step{times}"


def _steps(plan: Plan) -> str:
    each = plan.sizes["optimizer_steps_per_iteration"]
    return f"{plan.sizes['iterations']} iterations x {each}"


def _micro_batch(plan: Plan) -> str:
    batch, micro = plan.sizes["rollouts_per_optimizer_step"], plan.sizes["micro_batch"]
    return f"{batch} rollouts per optimizer step / {batch // micro} passes"


_ARITHMETIC = {
    "iterations": _iterations,
    "rollouts_per_iteration": _rollouts,
    "rollouts_per_optimizer_step": _per_step,
    "optimizer_steps_per_iteration": _steps_per_iteration,
    "optimizer_steps": _steps,
    "micro_batch": _micro_batch,
}
