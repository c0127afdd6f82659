"""One real optimizer step of the native loop on a small model, for its metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

from retrain.sample import Sample, Status


def metrics_of_a_step(folder: Path) -> dict[str, float]:
    """Train on two samples with a KL term; older weights wrote the second one."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from backends.torch.compute.schedule import OptimizerSettings, make_optimizer
    from backends.torch.configs import RLTrainingConfig
    from backends.torch.factory import make_reference
    from backends.torch.objective import PolicyObjective
    from backends.torch.pytorch import PyTorchTrainingBackend
    from backends.torch.rl_loop import train_on

    torch.manual_seed(0)
    shape = {"vocab_size": 30, "hidden_size": 8, "intermediate_size": 8, "head_dim": 4}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    model = Qwen3ForCausalLM(Qwen3Config(**shape, **heads))
    loss, how = PolicyObjective(kl_coef=0.1), RLTrainingConfig(num_steps=1, reference=True)
    samples = [
        Sample(
            index=index,
            rollout_id=index,
            tokens=[1, 2, 3 + index, 4, 5],
            response_length=3,
            loss_mask=[1, 0, 1],
            rollout_log_probs=[-3.0, 0.0, -3.0],
            advantage=1.0,
            reward=1.0,
            status=Status.COMPLETED,
        )
        for index in range(2)
    ]
    current = {(0, 0): (1, 0, 1), (1, 0): (0, 0, 0)}
    with PyTorchTrainingBackend(
        model,
        make_optimizer(model, OptimizerSettings()),
        loss,
        checkpoint_dir=folder,
        reference=make_reference(model, loss),
    ) as backend:
        return asyncio.run(train_on(backend, samples, how, current=current))
