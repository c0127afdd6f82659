"""LoRA and QLoRA: the adapter trains, the base does not, and what is left needs no peft."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from same_training import assert_same_training
from test_sft import ROWS
from transformers import AutoModelForCausalLM

from backends.local.adapters import lora_config
from backends.local.checkpoints import MARKER
from backends.trl.backend import TRLBackend
from backends.trl.checkpoints import newest_checkpoint
from retrain.config import ModelConfig, PeftConfig, RunConfig
from retrain.engine.transformers_loading import load_model
from retrain.errors import ConfigError
from retrain.training import train

pytest.importorskip("peft", reason="needs peft: pip install 'retrain[trl]'")

needs_bitsandbytes = pytest.mark.skipif(
    find_spec("bitsandbytes") is None, reason="needs bitsandbytes: pip install 'retrain[qlora]'"
)


@pytest.fixture
def adapted(config: Any, model_dir: Path) -> Any:
    """Makes a configuration that trains adapters; `peft` is laid over the defaults."""

    def make(peft: dict[str, Any] | None = None, **hyper: Any) -> RunConfig:
        section = {"r": 4, "lora_alpha": 8, **(peft or {})}
        model = {"name_or_path": str(model_dir), "threads": 1, "peft": section}
        sections = {"model": model, **hyper.pop("sections", {})}
        return config(**{"learning_rate": 1e-2, **hyper}, sections=sections)

    return make


def gaps(batches: list[Any]) -> Iterator[torch.Tensor]:
    """|trainer - engine| logprobs on the trained tokens."""
    for batch in batches:
        mask = (batch.inputs["completion_mask"] * batch.inputs["tool_mask"]).bool()
        yield (batch.logps - batch.inputs["sampling_per_token_logps"]).abs()[mask]


def greedy(folder: Path) -> torch.Tensor:
    """Logits of a model folder on fixed tokens."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(input_ids=torch.arange(3, 60)[None]).logits


@pytest.mark.slow
def test_engine_writes_with_the_adapter_that_is_trained(adapted: Any, spy: Any) -> None:
    result = train(adapted(num_iterations=3))
    later = [batch for batch in spy.batches if batch.step > 0]
    gap = torch.cat(list(gaps(later)))
    assert gap.numel() > 100
    assert gap.mean() < 1e-5
    adapter = load_file(result.run_dir / "adapter" / "adapter_model.safetensors")
    assert all(value.abs().max() > 0 for name, value in adapter.items() if "lora_B" in name)
    trainer = spy.trainers[0]
    names = [n for n, p in trainer.model.named_parameters() if p.requires_grad]
    assert names and all("lora_" in name for name in names)


@pytest.mark.slow
def test_run_leaves_whole_weights_and_the_adapter(adapted: Any, model_dir: Path, spy: Any) -> None:
    before = load_file(model_dir / "model.safetensors")
    result = train(adapted())
    after = load_file(model_dir / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before), "the base is untouched"
    merged = load_file(result.model_dir / "model.safetensors")
    assert merged.keys() == before.keys()
    changed = {name for name in before if not torch.equal(before[name], merged[name])}
    assert changed == {n for n in before if n.endswith("_proj.weight")}

    trained = spy.trainers[0].model.eval()
    with torch.no_grad():
        logits = trained(input_ids=torch.arange(3, 60)[None]).logits
    torch.testing.assert_close(greedy(result.model_dir), logits, atol=1e-5, rtol=0)
    assert (logits - greedy(model_dir)).abs().max() > 1e-3, "training changed something"
    assert (result.model_dir / "tokenizer.json").is_file()
    saved = json.loads((result.run_dir / "adapter" / "adapter_config.json").read_text())
    assert (saved["r"], saved["lora_alpha"]) == (4, 8)


@pytest.mark.slow
def test_reference_is_the_model_without_its_adapter(
    adapted: Any, model_dir: Path, spy: Any
) -> None:
    train(adapted(kl_coef=0.1, num_iterations=2))
    base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    (batch, *_) = [batch for batch in spy.batches if batch.step == 1]
    inputs = batch.inputs
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    with torch.no_grad():
        logits = base(input_ids=ids, attention_mask=attention).logits[:, :-1].log_softmax(-1)
    expected = logits.gather(2, ids[:, 1:, None])[..., 0][:, -inputs["completion_ids"].size(1) :]
    mask = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
    reference = inputs["ref_per_token_logps"]
    torch.testing.assert_close(reference[mask], expected[mask], atol=1e-5, rtol=0)
    assert (reference - batch.logps)[mask].abs().max() > 1e-4, "the adapter has moved the policy"
    assert spy.trainers[0].ref_model is None, "no second model is held"


@pytest.mark.slow
def test_resumed_adapter_goes_on_as_an_unbroken_one(
    adapted: Any, tmp_path: Path, model_dir: Path
) -> None:
    backend = TRLBackend()
    whole = adapted(num_iterations=4, save_interval=2, kl_coef=0.05)
    backend.train(backend.plan(whole))
    half = whole.model_copy(update={"output_dir": tmp_path / "half"})
    backend.train(backend.plan(half))
    newest = newest_checkpoint(half.output_dir / "checkpoints")
    assert newest is not None
    assert not list(newest.path.glob("model*.safetensors")), "a checkpoint holds the adapter only"
    (newest.path / MARKER).unlink()
    backend.train(backend.plan(half), resume=True)
    one = load_file(whole.output_dir / "model" / "model.safetensors")
    other = load_file(half.output_dir / "model" / "model.safetensors")
    assert_same_training(load_file(model_dir / "model.safetensors"), one, other)


@pytest.mark.slow
def test_resume_with_another_adapter_is_refused(adapted: Any, config: Any) -> None:
    backend = TRLBackend()
    made = adapted(num_iterations=2, save_interval=1)
    backend.train(backend.plan(made))
    for other, message in (
        (adapted({"lora_alpha": 16}, num_iterations=4), "model.peft.lora_alpha: is 16"),
        (config(num_iterations=4), "model.peft: .* has an adapter"),
    ):
        with pytest.raises(ConfigError, match=message):
            backend.train(backend.plan(other), resume=True)


@pytest.mark.slow
def test_export_of_a_checkpoint_is_whole(adapted: Any, model_dir: Path, tmp_path: Path) -> None:
    backend = TRLBackend()
    made = adapted(num_iterations=2, save_interval=2)
    result = train(made)
    finished = greedy(result.model_dir)
    (result.model_dir).rename(tmp_path / "elsewhere")
    out = backend.export(made.output_dir, tmp_path / "out")
    torch.testing.assert_close(greedy(out), finished)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in out.iterdir()}


@pytest.mark.slow
def test_cached_generation_under_checkpointing(adapted: Any) -> None:
    result = train(adapted(num_iterations=2, trl_gradient_checkpointing=True))
    assert result.metrics["rollout/cached_tokens"] > 0
    assert result.metrics["train/logprob_abs_diff"] < 1e-5


@pytest.mark.slow
def test_imitation_with_adapters_hands_whole_weights_to_the_next_stage(
    adapted: Any, tmp_path: Path
) -> None:
    path = tmp_path / "demonstrations.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    base = adapted(sections={"environment": {"type": "calculator"}}).model_dump(mode="json")
    hyper = base["algorithm"]["hyperparameters"]
    for key in ("num_epochs", "global_batch_size"):
        hyper.pop(key)
    base["prompt_source"]["source_config"]["items"] = [
        {"id": f"t{i}", "prompt": f"{i}+1 then *2", "label": 2 * i + 2} for i in range(5)
    ]
    source = {"type": "jsonl", "source_config": {"path": str(path)}}
    imitation = {"num_iterations": 3, "global_batch_size": 4, "learning_rate": 3e-2}
    base["stages"] = [
        {
            "name": "imitate",
            "prompt_source": source,
            "model": {"peft": {"lora_dropout": 0.1}},
            "algorithm": {"name": "sft", "hyperparameters": imitation},
        },
        {
            "name": "explore",
            "environment": {"type": "noisy_environment:Noisy"},
            "algorithm": {"hyperparameters": {"kl_coef": 0.1}},
        },
    ]
    result = train(RunConfig.model_validate(base))
    imitated = result.run_dir.parent / "imitate"
    for run in (imitated, result.run_dir):
        assert (run / "adapter" / "adapter_model.safetensors").is_file()
        assert not (run / "model" / "adapter_config.json").exists()
    saved = json.loads((result.run_dir / "adapter" / "adapter_config.json").read_text())
    assert saved["base_model_name_or_path"] == str(imitated / "model")
    one, two = (
        load_file(run / "model" / "model.safetensors") for run in (imitated, result.run_dir)
    )
    assert all(not torch.equal(one[n], two[n]) for n in one if n.endswith("_proj.weight"))


def faults(config: RunConfig) -> dict[str, str]:
    return {problem.key: problem.message for problem in TRLBackend().plan(config).errors}


def test_target_that_matches_nothing_is_told_what_there_is(adapted: Any) -> None:
    found = faults(adapted({"target_modules": ["q_proj", "kproj"]}))
    assert found == {
        "model.peft.target_modules": "'kproj' matches no linear layer of the model; did you mean "
        "'k_proj'? There are: down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"
    }


def test_head_is_no_target(adapted: Any) -> None:
    found = faults(adapted({"target_modules": "lm_head"}))
    assert "would never be trained" in found["model.peft.target_modules"]


def test_dropout_is_for_imitation_only(adapted: Any) -> None:
    assert "set it to 0" in faults(adapted({"lora_dropout": 0.1}))["model.peft.lora_dropout"]


def test_missing_packages_are_named_with_the_command(
    adapted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backends.local import adapters

    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    found = faults(adapted({"bits": 4}))
    assert "pip install 'retrain[trl]'" in found["model.peft"]
    assert "pip install 'retrain[qlora]'" in found["model.peft.bits"]


@pytest.mark.slow
@needs_bitsandbytes
def test_quantised_base_trains_an_adapter_and_leaves_whole_weights(
    adapted: Any, model_dir: Path, spy: Any
) -> None:
    result = train(adapted({"bits": 4}, num_iterations=2, kl_coef=0.1))
    trainer = spy.trainers[0]
    trained = [p for p in trainer.model.parameters() if p.requires_grad]
    assert {p.dtype for p in trained} == {torch.float32}
    assert trainer.model.get_base_model().is_loaded_in_4bit
    later = [batch for batch in spy.batches if batch.step > 0]
    assert torch.cat(list(gaps(later))).mean() < 1e-5
    merged, base = (load_file(f / "model.safetensors") for f in (result.model_dir, model_dir))
    assert merged.keys() == base.keys()
    assert all(value.dtype is torch.float32 for value in merged.values())
    adapter = load_file(result.run_dir / "adapter" / "adapter_model.safetensors")
    prefix = "base_model.model.model.layers.0.mlp.up_proj"
    delta = adapter[f"{prefix}.lora_B.weight"] @ adapter[f"{prefix}.lora_A.weight"] * 2
    name = "model.layers.0.mlp.up_proj.weight"
    torch.testing.assert_close(merged[name], base[name] + delta, atol=1e-6, rtol=0)


def test_eight_bits_warn_of_their_logprobs(adapted: Any) -> None:
    def warned(**hyper: Any) -> list[str]:
        return [p.key for p in TRLBackend().plan(adapted({"bits": 8}, **hyper)).problems]

    assert "model.peft.bits" in warned()
    if find_spec("bitsandbytes") is not None:
        assert "model.peft.bits" not in warned(importance_correction="tis")


@pytest.mark.slow
@needs_bitsandbytes
def test_quantised_layers_keep_their_gradients_after_generation(model_dir: Path) -> None:
    """bitsandbytes would pack them for inference on some CPUs, and lose the backward pass."""
    from peft import get_peft_model

    peft = PeftConfig(r=4, bits=4)
    section = ModelConfig(name_or_path=str(model_dir), peft=peft)
    model = get_peft_model(load_model(section), lora_config(peft))
    ids = torch.arange(3, 60)[None]

    def gradients() -> torch.Tensor:
        model.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    before = gradients()
    model.eval()
    with torch.no_grad():
        model(input_ids=ids)
    model.train()
    torch.testing.assert_close(gradients(), before)
    assert before.norm() > 0
