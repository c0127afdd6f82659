"""A `GRPOTrainer` whose rows, advantages and old logprobs are ours; the loop and loss are TRL's.

Suffixes: B rows, T padded completion length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from backends.trl.checkpoints import complete_checkpoint
from backends.trl.feed import RolloutFeed, raw_reward
from backends.trl.row_images import RowImages
from backends.trl.weights import WeightKeeper
from retrain.sample import Sample
from retrain.vision import VisionProcessor

TIS_CLIP = 2.0
"""Cap of the truncated importance weight (slime's `--tis-clip`)."""


class BridgedGRPOTrainer(GRPOTrainer):
    """Trains on what a `RolloutFeed` collects.

    Five methods are extended, each because TRL's own would change what is learned:

    - `_generate_and_score_completions`: the weights' keeper syncs them. TRL subtracts the mean of
      rows that stand together; our advantages go by explicit group. TRL takes the ratio as 1 where
      it thinks that the batch is on-policy; we always give the engine's logprobs.
    - `_prepare_inputs`: the token mean runs over the tokens of one optimizer step.
    - `_get_per_token_logps_and_entropies`: rows with images are computed with them, wherever they
      stand; TRL takes images from its data set alone, and sees placeholder prompts there.
    - `_compute_loss`: measures mean |train - rollout logprob| on the trained tokens, and hands out
      the trainer's logprobs.
    - `_save_checkpoint`: the position in the data is part of a checkpoint.
    """

    def __init__(
        self,
        *,
        feed: RolloutFeed,
        weights: WeightKeeper,
        data_state: Any,
        truncated_importance: bool,
        on_logprobs: Callable[[Sequence[Sample], torch.Tensor], None],
        vision: VisionProcessor | None = None,
        **trl: Any,
    ) -> None:
        """Make a trainer.

        Args:
            feed: Collects the rows.
            weights: Brings the weights to the engine that writes them.
            data_state: Called at each checkpoint; gives the state to keep in it.
            truncated_importance: True recomputes the old logprobs with the trainer's weights and
                weights each token by min(exp(trainer_old - engine), 2).
            on_logprobs: Given rows and the trainer's [B, T] logprobs of their responses, padded
                on the right, before the first update with them.
            vision: The model's image processor; None where it reads no images.
            **trl: `GRPOTrainer`'s own keyword arguments.
        """
        super().__init__(reward_funcs=raw_reward, rollout_func=feed, **trl)
        self._feed = feed
        self._weights = weights
        weights.attach(self)
        self._data_state = data_state
        self._truncated_importance = truncated_importance
        self._on_logprobs = on_logprobs
        self._last_logps_BT: torch.Tensor | None = None
        self._images = RowImages(vision)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._weights.sync()
        with self._images.of(self._feed):
            output = self._scored(inputs)
        self._images.hand_over(output, self._feed.rows)
        return output

    def _scored(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        rows = self._feed.rows
        if self.log_completions:
            self._show_conversations(rows)
        width, device = output["completion_ids"].size(1), output["completion_ids"].device
        engine_BT = pad_rows([row.rollout_log_probs for row in rows], width).to(device)
        advantages = torch.tensor([row.advantage for row in rows], device=device)
        output["advantages"] = advantages
        output["old_per_token_logps"] = engine_BT
        output["retrain_row"] = torch.arange(len(rows), device=device)
        output["retrain_current"] = pad_rows(self._feed.current, width).bool().to(device)
        if self._truncated_importance:
            trainer_BT = self._trainer_logps(output)
            weights_BT = (trainer_BT - engine_BT).exp().clamp(max=TIS_CLIP)
            output["advantages"] = advantages.unsqueeze(1) * weights_BT
            output["old_per_token_logps"] = trainer_BT
        return output

    def _show_conversations(self, rows: Sequence[Sample]) -> None:
        """Put what was really said into TRL's table of completions.

        TRL knows placeholder prompts, and computes advantages that are not used.
        """
        decode = self._tokenizer.decode
        shown = {
            "prompt": [decode(row.prompt_ids) for row in rows],
            "completion": [decode(row.response_ids) for row in rows],
            "advantages": [row.advantage for row in rows],
        }
        for name, values in shown.items():
            self._logs[name].clear()
            self._logs[name].extend(gather_object(values))

    def _trainer_logps(self, output: dict[str, Any]) -> torch.Tensor:
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        with torch.no_grad():
            logps_BT, _, _ = self._get_per_token_logps_and_entropies(
                self.model,
                ids,
                mask,
                output["completion_ids"].size(1),
                batch_size=self.args.per_device_train_batch_size,
            )
        return logps_BT

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        before = self._buffered_inputs
        inputs: dict[str, Any] = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is not before and self._buffered_inputs is not None:
            self._set_token_divisors(self._buffered_inputs)
        return inputs

    def _set_token_divisors(self, micro_batches: Sequence[dict[str, Any]]) -> None:
        """Make dapo's divisor the trained tokens of one optimizer step.

        TRL divides `num_items_in_batch`, which spans the generation batch, by the number of
        optimizer steps in it (grpo_trainer.py, `_compute_loss`): an average that is wrong for each
        step as soon as episodes differ in length. Where all is masked, TRL divides by 1.
        """
        window = self.args.gradient_accumulation_steps
        windows = self.args.steps_per_generation / window
        for start in range(0, len(micro_batches), window):
            batches = micro_batches[start : start + window]
            tokens = torch.stack([_trained_mask(batch).sum() for batch in batches]).sum()
            total = self.accelerator.gather(tokens).sum() * windows
            for batch in batches:
                batch["num_items_in_batch"] = total

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, *args: Any, **kwargs: Any
    ) -> Any:
        def compute(rows: slice, **more: Any) -> Any:
            return super(BridgedGRPOTrainer, self)._get_per_token_logps_and_entropies(
                model, input_ids[rows], attention_mask[rows], *args, **{**kwargs, **more}
            )

        result = self._images.compute(compute, input_ids, kwargs)
        self._last_logps_BT = result[0].detach()
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        if self._last_logps_BT is not None and self._is_on_policy():
            gap_BT = (self._last_logps_BT - inputs["sampling_per_token_logps"]).abs()
            self._measure(gap_BT, _trained_mask(inputs).bool(), inputs["retrain_current"])
            rows = [self._feed.rows[place] for place in inputs["retrain_row"].tolist()]
            self._on_logprobs(rows, self._last_logps_BT)
        return loss

    def _measure(
        self, gap_BT: torch.Tensor, trained_BT: torch.Tensor, current_BT: torch.Tensor
    ) -> None:
        """Compare with the engine: all trained tokens, and those that the present weights wrote."""
        if not trained_BT.any():
            return
        gap = gap_BT[trained_BT].mean().item()
        self._metrics["train"]["logprob_abs_diff"].append(gap)
        current_BT = trained_BT & current_BT
        if torch.equal(current_BT, trained_BT):
            self._weights.measured(gap)
            return
        self._weights.drifted(gap)
        if current_BT.any():
            own = gap_BT[current_BT].mean().item()
            self._weights.measured(own)
            self._metrics["train"]["logprob_abs_diff_current"].append(own)

    def _is_on_policy(self) -> bool:
        """Whether the weights are still those that sampled the batch."""
        steps = self.args.steps_per_generation * self.num_iterations
        return bool(self._step % steps < self.args.gradient_accumulation_steps)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        complete_checkpoint(self, self._data_state())


def pad_rows(rows: Sequence[Sequence[float]], width: int) -> torch.Tensor:
    """Pad rows with 0.0 on the right into a float32 tensor of shape [B, width]."""
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows])


def _trained_mask(batch: dict[str, Any]) -> torch.Tensor:
    """[B, T] 1 on the tokens that the loss is over."""
    mask: torch.Tensor = batch["completion_mask"] * batch["tool_mask"]
    return mask
