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


def _longest_row(plan: Plan) -> str:
    hyper, tokens = plan.config.algorithm.hyperparameters, plan.sizes["longest_row_tokens"]
    if tokens == hyper.max_context_len:
        return "max_context_len"
    prompt = tokens - hyper.max_response_len
    known = f"max_prompt_len {prompt}" if hyper.max_prompt_len else f"a prompt of {prompt}, assumed"
    return f"{known} + max_response_len {hyper.max_response_len}"


def _tokens_per_gpu(plan: Plan) -> str:
    if plan.config.algorithm.hyperparameters.prefixed("slime").get("max_tokens_per_gpu"):
        return "slime_max_tokens_per_gpu"
    gpus = int(plan.arguments.get("context_parallel_size", 1))
    row = f"the longest row / {gpus} GPUs that share it" if gpus > 1 else "the longest row"
    share = -(-plan.sizes["longest_row_tokens"] // gpus)
    return row if plan.sizes["max_tokens_per_gpu"] == share else f"the default; {row} is {share}"


def _training_gpus(plan: Plan) -> str:
    nodes = plan.arguments.get("actor_num_nodes", 1)
    return f"{nodes} x {plan.arguments.get('actor_num_gpus_per_node', 1)} GPUs of a node"


def _copies(plan: Plan) -> str:
    shared = [
        (name, int(plan.arguments.get(f"{option}_parallel_size", 1)))
        for name, option in (
            ("tensor", "tensor_model"),
            ("pipeline", "pipeline_model"),
            ("context", "context"),
        )
    ]
    by = " x ".join(f"{name} {size}" for name, size in shared)
    return f"{plan.sizes['training_gpus']} GPUs that train / ({by})"


def _engines(plan: Plan) -> str:
    if not plan.sizes["engines"]:
        sft = plan.config.algorithm.name == "sft"
        return "sft generates nothing" if sft else "none is started: another server answers"
    each = int(plan.arguments.get("rollout_num_gpus_per_engine", 1))
    return f"{plan.sizes['engines'] * each} GPUs that generate / {each} per engine"


def _gpus(plan: Plan) -> str:
    train = plan.sizes["training_gpus"]
    if plan.arguments.get("colocate"):
        return "the engines stand on the GPUs that train"
    return f"{train} that train + {plan.sizes['gpus'] - train} that generate"


def _tokens_per_pass(plan: Plan) -> str:
    processes = plan.sizes["processes"]
    each = plan.sizes["tokens_per_pass"] // processes
    return f"{processes} processes x torch_micro_batch_tokens {each}"


_ARITHMETIC = {
    "iterations": _iterations,
    "rollouts_per_iteration": _rollouts,
    "rollouts_per_optimizer_step": _per_step,
    "optimizer_steps_per_iteration": _steps_per_iteration,
    "optimizer_steps": _steps,
    "micro_batch": _micro_batch,
    "longest_row_tokens": _longest_row,
    "tokens_per_pass": _tokens_per_pass,
    "max_tokens_per_gpu": _tokens_per_gpu,
    "training_gpus": _training_gpus,
    "model_copies": _copies,
    "engines": _engines,
    "gpus": _gpus,
}
