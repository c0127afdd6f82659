"""Faults in what writes the tokens, and in what is drawn."""

from __future__ import annotations

from planted_fault import PlantedFault

_SAMPLING = "retrain/engine/transformers_sampling.py"
_SCHEDULER = "retrain/engine/transformers_scheduler.py"
_ENGINE = (
    "tests/engine/test_transformers_sampling.py",
    "tests/engine/test_transformers_slots.py",
    "tests/engine/test_transformers_scheduler.py",
    "tests/engine/test_transformers_engine.py",
)
_HTTP = ("tests/engine/http_engines/test_sglang_engine.py",)

ENGINES = (
    PlantedFault(
        "gives logprobs without the temperature",
        _SAMPLING,
        "logprobs: list[float] = logprobs_BV.gather(",
        "logprobs: list[float] = torch.log_softmax(logits_BV, dim=-1).gather(",
        _ENGINE,
    ),
    PlantedFault(
        "gives logprobs over the truncated distribution",
        _SAMPLING,
        "logprobs: list[float] = logprobs_BV.gather(",
        "logprobs: list[float] = (probs_BV / probs_BV.sum(-1, keepdim=True)).log().float().gather(",
        _ENGINE,
    ),
    PlantedFault(
        "samples every token of a turn with one number",
        _SAMPLING,
        "_GOLDEN * (position + 1)",
        "_GOLDEN",
        _ENGINE,
    ),
    PlantedFault(
        "reads keys of another history from the cache",
        "retrain/engine/transformers_slots.py",
        "        kept = common_prefix(self.tokens, input_ids)\n",
        "        kept = min(len(self.tokens), len(input_ids) - 1)\n",
        _ENGINE,
    ),
    PlantedFault(
        "accepts an answer to a prompt that the server cut",
        "retrain/engine/http_answer.py",
        "    if computed is not None and computed != sent:",
        "    if False:",
        _HTTP,
    ),
    PlantedFault(
        "accepts an answer whose stop token was trimmed",
        "retrain/engine/http_answer.py",
        "    if isinstance(matched, int) and (not ids or ids[-1] != matched):",
        "    if False:",
        _HTTP,
    ),
    PlantedFault(
        "draws every epoch in one order",
        "retrain/rollout/buffer.py",
        'derive_seed("shuffle", self._seed, epoch, task.id)',
        'derive_seed("shuffle", self._seed, task.id)',
        ("tests/rollout/test_data_buffer.py",),
    ),
)
