"""The vocabulary: every key of `algorithm.hyperparameters`, in one place.

The fields of `Vocabulary` are the table. A field gives a key its type, default and constraints; its
`Row` gives the meaning, the synonyms and each framework's own word. The loader, the backends and
docs/configuration.md all read it here.

retrain's defaults win over the frameworks' and are sent to both explicitly; otherwise changing the
backend would change the algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from retrain.config.row import Row, Word
from retrain.config.section import Section

_OURS = Word(note="kept by retrain's episode loop")


class Vocabulary(Section):
    """The table: a field for each key, in the order of the documentation."""

    num_iterations: Annotated[
        int | None,
        Field(gt=0),
        Row(
            "rollout-then-train iterations; for sft, optimizer steps. "
            "Exactly one of this and num_epochs",
            Word("max_steps", False, "iterations x optimizer steps per iteration"),
            Word("num_rollout"),
            sft=True,
            default="required",
        ),
    ] = None
    num_epochs: Annotated[
        int | None,
        Field(gt=0),
        Row(
            "passes over the prompt source; for sft, over the demonstrations",
            Word("max_steps", False, "epochs x prompts / rollout_batch_size iterations"),
            Word("num_epoch"),
            sft=True,
            default="required",
        ),
    ] = None
    rollout_batch_size: Annotated[
        int,
        Field(gt=0),
        Row(
            "prompts per iteration",
            Word(
                "steps_per_generation",
                False,
                "rollouts of an iteration / per_device_train_batch_size / devices",
            ),
            Word("rollout_batch_size"),
        ),
    ] = 8
    n_samples_per_prompt: Annotated[
        int,
        Field(gt=0),
        Row(
            "episodes per prompt: the group size G, at least 2",
            Word("num_generations"),
            Word("n_samples_per_prompt"),
            synonyms=("num_generations",),
        ),
    ] = 8
    global_batch_size: Annotated[
        int,
        Row(
            "rollouts per optimizer step; must divide rollout_batch_size x n_samples_per_prompt. "
            "For sft, demonstrations per optimizer step",
            Word(
                "gradient_accumulation_steps",
                False,
                "global_batch_size / per_device_train_batch_size / devices",
            ),
            Word("global_batch_size"),
            sft=True,
            default="rollout_batch_size x n_samples_per_prompt; sft: 8",
        ),
    ] = Field(default=None, gt=0, validate_default=True)

    learning_rate: Annotated[
        float,
        Field(ge=0),
        Row("peak learning rate", Word("learning_rate"), Word("lr"), sft=True),
    ] = 1e-6
    lr_schedule: Annotated[
        Literal["constant", "linear", "cosine"],
        Row(
            "how the learning rate goes on after the warm-up",
            Word("lr_scheduler_type", False, "constant is constant_with_warmup after a warm-up"),
            Word("lr_decay_style", False, "the same word"),
            sft=True,
        ),
    ] = "constant"
    warmup_steps: Annotated[
        int,
        Field(ge=0),
        Row(
            "optimizer steps of linear warm-up",
            Word("warmup_steps"),
            Word("lr_warmup_iters"),
            sft=True,
        ),
    ] = 0
    weight_decay: Annotated[
        float,
        Field(ge=0),
        Row("AdamW's decoupled decay", Word("weight_decay"), Word("weight_decay"), sft=True),
    ] = 0.0
    adam_beta1: Annotated[
        float,
        Field(ge=0, lt=1),
        Row("decay of Adam's first moment", Word("adam_beta1"), Word("adam_beta1"), sft=True),
    ] = 0.9
    adam_beta2: Annotated[
        float,
        Field(ge=0, lt=1),
        Row("decay of Adam's second moment", Word("adam_beta2"), Word("adam_beta2"), sft=True),
    ] = 0.98
    max_grad_norm: Annotated[
        float,
        Field(ge=0),
        Row(
            "largest norm of the gradient; 0 is off",
            Word("max_grad_norm"),
            Word("clip_grad"),
            sft=True,
        ),
    ] = 1.0

    temperature: Annotated[
        float,
        Field(gt=0),
        Row(
            "divides the logits when sampling, and when training",
            Word("temperature"),
            Word("rollout_temperature"),
            sft=True,
        ),
    ] = 1.0
    top_p: Annotated[
        float,
        Field(gt=0, le=1),
        Row("nucleus sampling; 1 is off", Word("top_p"), Word("rollout_top_p"), sft=True),
    ] = 1.0
    top_k: Annotated[
        int,
        Row(
            "sample from the k likeliest tokens; -1 is off",
            Word("top_k", False, "0 is off there"),
            Word("rollout_top_k"),
            sft=True,
        ),
    ] = -1
    max_response_len: Annotated[
        int,
        Field(gt=0),
        Row(
            "tokens of the whole multi-turn response, the environment's replies included",
            Word("max_completion_length"),
            Word("rollout_max_response_len"),
            synonyms=("max_completion_length",),
            sft=True,
        ),
    ] = 512
    max_tokens_per_turn: Annotated[
        int | None,
        Field(gt=0),
        Row("tokens that the model writes in one turn", _OURS, _OURS, sft=True),
    ] = None
    max_context_len: Annotated[
        int | None,
        Field(gt=0),
        Row(
            "tokens of prompt and response together",
            _OURS,
            Word("rollout_max_context_len"),
            sft=True,
        ),
    ] = None
    max_prompt_len: Annotated[
        int | None,
        Field(gt=0),
        Row("tokens of the first prompt", _OURS, Word("rollout_max_prompt_len"), sft=True),
    ] = None

    kl_coef: Annotated[
        float,
        Field(ge=0),
        Row(
            "weight, in the loss, of the KL divergence from the reference model",
            Word("beta"),
            Word("kl_loss_coef"),
            synonyms=("beta",),
        ),
    ] = 0.0
    kl_estimator: Annotated[
        Literal["k1", "k2", "k3"],
        Row(
            "how the KL divergence is estimated (Schulman, Approximating KL Divergence)",
            Word(note="k3 only"),
            Word("kl_loss_type", False, "never low_var_kl, which is k3 cut at 10"),
        ),
    ] = "k3"
    clip_eps_low: Annotated[
        float,
        Field(ge=0),
        Row(
            "the importance ratio is clipped below at 1 - this",
            Word("epsilon"),
            Word("eps_clip"),
            synonyms=("epsilon",),
        ),
    ] = 0.2
    clip_eps_high: Annotated[
        float,
        Field(ge=0),
        Row(
            "the importance ratio is clipped above at 1 + this",
            Word("epsilon_high"),
            Word("eps_clip_high"),
            synonyms=("epsilon_high",),
        ),
    ] = 0.2
    loss_aggregation: Annotated[
        Literal["token", "sequence"],
        Row(
            "mean over the tokens, or over the rollouts' own means, of one optimizer step",
            Word("loss_type", False, "token is dapo, sequence is grpo"),
            Word("calculate_per_token_loss", False, "set for token"),
        ),
    ] = "token"
    importance_correction: Annotated[
        Literal["none", "tis"],
        Row(
            "none: the old logprobs are the engine's. tis: the trainer's, recomputed, and each "
            "token weighs min(exp(trainer - engine), 2)",
            Word(note="old_per_token_logps, set by retrain's trainer"),
            Word("use_tis", False, "tis: with tis_clip 2.0; none: use_rollout_logprobs"),
        ),
    ] = "none"

    save_interval: Annotated[
        int | None,
        Field(gt=0),
        Row(
            "iterations between checkpoints; for sft, optimizer steps",
            Word("save_steps", False, "in optimizer steps"),
            Word("save_interval"),
            sft=True,
        ),
    ] = None
    eval_interval: Annotated[
        int | None,
        Field(gt=0),
        Row(
            "iterations between evaluations",
            Word(note="retrain evaluates between TRL's steps"),
            Word("eval_interval"),
        ),
    ] = None


ROWS: Mapping[str, Row] = {
    key: next(item for item in field.metadata if isinstance(item, Row))
    for key, field in Vocabulary.model_fields.items()
}
"""Key to row."""

SYNONYMS: Mapping[str, str] = {s: key for key, row in ROWS.items() for s in row.synonyms}
"""Synonym to key."""

SFT_KEYS = frozenset(key for key, row in ROWS.items() if row.sft)
"""The keys that mean something to supervised fine-tuning."""


def spellings(key: str, backend: str) -> tuple[str, ...]:
    """Every way to write a key: itself, its synonyms, and the chosen framework's same option."""
    row = ROWS.get(key)
    if row is None:
        return (key,)
    word = row.word(backend)
    prefixed = (f"{backend}_{word.option}",) if word.option and word.same else ()
    return (key, *row.synonyms, *prefixed)
