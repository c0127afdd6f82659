"""Faults of the native loop, between samples and the weights."""

from __future__ import annotations

from planted_fault import PlantedFault

_LOSSES = (
    "tests/torch_backend/test_native_losses.py",
    "tests/torch_backend/test_native_gradients.py",
    "tests/parity/test_fuzz.py",
)
_ROWS = (
    "tests/torch_backend/test_native_gradients.py",
    "tests/torch_backend/test_native_packing.py",
)
_FUZZ = ("tests/parity/test_fuzz.py",)
_OBJECTIVE = "backends/torch/objective.py"
_PASSES = "backends/torch/compute/passes.py"
_MICRO = "backends/torch/compute/micro_batches.py"

NATIVE_LOOP = (
    PlantedFault(
        "adds the losses of what the environment said, in the native loop",
        "backends/torch/losses.py",
        "(losses_BR * mask_BR * weights_B.unsqueeze(1)).sum()",
        "(losses_BR * weights_B.unsqueeze(1)).sum()",
        _LOSSES,
    ),
    PlantedFault(
        "takes the mask of a row for that of all, in the native loop",
        _MICRO,
        "        mask=_padded([row.mask for row in rows], width),\n",
        "        mask=_padded([rows[0].mask for row in rows], width),\n",
        _ROWS,
    ),
    PlantedFault(
        "trains the native loop without the temperature",
        _PASSES,
        "scored = score(model, micro, temperature=settings.temperature)",
        "scored = score(model, micro)",
        _FUZZ,
    ),
    PlantedFault(
        "scores the native loop's old logprobs without the temperature",
        _PASSES,
        "logprobs_BR = score(model, micro, temperature=settings.temperature).logprobs",
        "logprobs_BR = score(model, micro).logprobs",
        _FUZZ,
    ),
    PlantedFault(
        "lets every micro-batch of the native loop weigh the same",
        _PASSES,
        "loss = weighted_sum(cost.losses, micro.mask, micro.weights)",
        "loss = weighted_sum(cost.losses, micro.mask, micro.weights / micro.weights.sum())",
        _ROWS,
    ),
    PlantedFault(
        "takes the ratio of the native loop as 1",
        _OBJECTIVE,
        "            logprobs_BR,\n            micro.old,\n            micro.mask,\n",
        "            logprobs_BR,\n            logprobs_BR.detach(),\n            micro.mask,\n",
        _FUZZ,
    ),
    PlantedFault(
        "takes the native loop's KL divergence from the policy itself",
        _OBJECTIVE,
        "kl_divergence(logprobs_BR, micro.reference, self.kl_estimator)",
        "kl_divergence(logprobs_BR, logprobs_BR.detach(), self.kl_estimator)",
        _FUZZ,
    ),
    PlantedFault(
        "takes the native loop's truncated importance from the trainer alone",
        "backends/torch/rows.py",
        "engine=row.old, old=tuple(found)",
        "old=tuple(found)",
        _LOSSES,
    ),
    PlantedFault(
        "does not cap the native loop's truncated importance weight",
        "backends/torch/losses.py",
        "torch.exp(trainer_N - engine_N).clamp(max=cap).detach()",
        "torch.exp(trainer_N - engine_N).detach()",
        _LOSSES,
    ),
    PlantedFault(
        "counts positions on from one packed row to the next, in the native loop",
        _MICRO,
        "[[t for row in rows for t in range(len(row.tokens))]]",
        "[list(range(sum(len(row.tokens) for row in rows)))]",
        _ROWS,
    ),
    PlantedFault(
        "scores a token by the logits behind it, in the native loop",
        _MICRO,
        "rows[row].prompt_length + slot - 1 for row, slot in trained",
        "rows[row].prompt_length + slot for row, slot in trained",
        _ROWS,
    ),
    PlantedFault(
        "weighs the segments of a rollout each by itself, in the native loop",
        "backends/torch/aggregation.py",
        "        tokens[rollout] += count\n",
        "        tokens[rollout] = count\n",
        _LOSSES,
    ),
    PlantedFault(
        "adds the gradient of the step before, in the native loop",
        "backends/torch/pytorch.py",
        "        optimizer.zero_grad(set_to_none=True)\n",
        "",
        ("tests/torch_backend/test_native_runs.py",),
    ),
)
