"""Memory at plan time: what a run will take, and the micro-batch that fits the device.

Symbols as in `backends.local.memory`; N trained tokens of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from backends.base import Plan, Problem
from backends.local.adapters import adapted_layers
from backends.local.fitting import device_bytes, memory_problems, row_tokens
from backends.local.memory import MemoryEstimate, Workload, estimate
from backends.local.outline import ModelOutline
from backends.torch.compute.head import tile_tokens
from backends.torch.processes.launching import IN_PROCESS, engine_name
from backends.torch.run.advice import MICRO_BATCH_TOKENS, what_to_lower
from retrain.config import RunConfig
from retrain.engine.transformers_loading import KV_BYTES, weight_type

_CHANGED_LOGITS = (
    "final_logit_softcapping",
    "lm_head_multiplier",
    "logit_scale",
    "logits_scaling",
    "output_multiplier",
)
"""Settings of models that change what their head gives: their logits are computed all at once."""


def with_memory(plan: Plan, outline: ModelOutline | None, *, asked: bool) -> Plan:
    """A plan with its memory, and a warning where it does not fit.

    Args:
        plan: The rest of it.
        outline: Its model; None leaves the plan as it is.
        asked: Whether the user has named the micro-batch's tokens; where not, as many are taken as
            fit. What is learned does not depend on it.
    """
    if outline is None:
        return plan
    memory = MemoryPlan(plan.config, outline, plan.arguments, plan.sizes)
    fits, now = memory.largest_that_fits(), plan.arguments["micro_batch_tokens"]
    if not asked and fits is not None and fits < now:
        plan = replace(
            plan,
            arguments={**plan.arguments, "micro_batch_tokens": fits},
            sizes={**plan.sizes, "tokens_per_pass": fits * plan.sizes["processes"]},
        )
        memory = replace(memory, arguments=plan.arguments, sizes=plan.sizes)
    problems = (*plan.problems, *memory.problems())
    return replace(plan, memory=memory.estimated().as_mapping(), problems=problems)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of a run on its device.

    Attributes:
        config: The run.
        outline: Its model.
        arguments: Those of its plan.
        sizes: Those of its plan.
    """

    config: RunConfig
    outline: ModelOutline
    arguments: Mapping[str, Any]
    sizes: Mapping[str, int]

    def estimated(self, micro_batch_tokens: int | None = None) -> MemoryEstimate:
        """What one process needs; with another budget of tokens where one is given."""
        budget = micro_batch_tokens or int(self.arguments["micro_batch_tokens"])
        work = self.workload(budget)
        trained = self._trained_tokens(work)
        return estimate(self.outline, work, head_bytes(self.outline, work, trained))

    def problems(self) -> list[Problem]:
        """Warn where it does not fit, with the largest micro-batch that does."""
        fits = self.largest_that_fits()
        first = (
            f"no {MICRO_BATCH_TOKENS} is small enough"
            if fits is None
            else f"set {MICRO_BATCH_TOKENS}: {fits}"
        )
        todo = f"{first}; {what_to_lower(self.config, self.arguments)}"
        return memory_problems(self.estimated(), self.available, todo)

    def largest_that_fits(self) -> int | None:
        """The largest budget up to the plan's own that fits, in whole longest rows; None for none.

        What is learned does not depend on it.
        """
        row, wanted = self._row_tokens, int(self.arguments["micro_batch_tokens"])
        if self.estimated(row).peak > self.available:
            return None
        low, high = 1, max(1, wanted // row)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.estimated(middle * row).peak <= self.available
            low, high = (middle, high) if fits else (low, middle - 1)
        return wanted if low == wanted // row else low * row

    @property
    def available(self) -> int:
        """Bytes for one process: its GPU's, or its share of the machine's."""
        cuda = self.arguments["device_type"] == "cuda"
        return device_bytes(cuda=cuda) // (1 if cuda else self.sizes["processes"])

    def workload(self, budget: int) -> Workload:
        """What is done with the model, in micro-batches of at most so many tokens."""
        config, given = self.config, self.arguments
        cuda, peft, row = given["device_type"] == "cuda", config.model.peft, self._row_tokens
        rows = max(1, min(self._most_rows, budget // row))
        here = config.algorithm.name != "sft" and engine_name(config) == IN_PROCESS
        playing = min(config.rollout.concurrency, self.sizes["rollouts_per_iteration"])
        return Workload(
            rows=1 if given["packing"] else rows,
            row_tokens=rows * row if given["packing"] else row,
            slots=playing if here else 0,
            slot_budget=device_bytes(cuda=cuda) // 4 if cuda else KV_BYTES,
            weight_type=weight_type(config.model),
            autocast=None if given["autocast"] is None else getattr(torch, given["autocast"]),
            optimizer="adamw_torch",
            adapter=None if peft is None else (adapted_layers(peft, self.outline), peft.r),
            bits=None if peft is None else peft.bits,
            reference=given.get("kl_coef", 0.0) != 0,
            checkpointing=given["gradient_checkpointing"],
            cuda=cuda,
            processes=self.sizes["processes"],
        )

    @property
    def _row_tokens(self) -> int:
        return row_tokens(self.config, self.outline)

    @property
    def _most_rows(self) -> int:
        """Rows of one process in an optimizer step."""
        return -(-self.sizes["rollouts_per_optimizer_step"] // self.sizes["processes"])

    def _trained_tokens(self, work: Workload) -> int:
        """N at most: where prompts are short, nearly all tokens are; of demonstrations, all."""
        tokens = work.rows * work.row_tokens
        if self.config.algorithm.name == "sft":
            return tokens
        response = self.config.algorithm.hyperparameters.max_response_len
        return min(tokens, self._most_rows * response)


def head_bytes(outline: ModelOutline, work: Workload, trained: int) -> int:
    """Bytes of the head in its backward pass.

    A tile of logits takes w bytes each, and in float32 its gradient, with a second copy where the
    logits are of another type. Then comes the gradient of the head's weight, V x H, beside which
    the sum over earlier tiles is kept; autocast keeps a copy of that weight. Hidden states and
    their gradient are N x H. A model that changes its logits has those of all tokens at once, as
    given and as picked.

    Args:
        outline: The model.
        work: What is done with it.
        trained: N.
    """
    config: Any = outline.config
    words, hidden, w = int(config.vocab_size), int(config.hidden_size), work.computed.itemsize
    changed = any(getattr(config, name, None) is not None for name in _CHANGED_LOGITS)
    tokens = trained if changed else min(trained, tile_tokens(words))
    each = w + (4 if w == 4 else 8) + (2 * w if changed else 0)
    weight = 0 if work.adapter else words * hidden * work.weight_type.itemsize
    cast = 0 if work.computed is work.weight_type else words * hidden * w
    earlier = weight if tokens < trained else 0
    tile = max(tokens * words * each, tokens * words * w + weight)
    return int(tile + earlier + cast + 2 * trained * hidden * w)
