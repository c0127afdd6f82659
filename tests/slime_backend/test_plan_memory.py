"""What training holds on each GPU, read off the headers of the model's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plan_configs import COLOCATED, make_config

from backends.slime.memory import read_size, training_memory
from backends.slime.planning import make_plan
from backends.slime.sizes import Parallelism

TENSORS = {
    "model.embed_tokens.weight": [100, 8],
    "lm_head.weight": [100, 8],
    "model.norm.weight": [8],
    "model.layers.0.mlp.up_proj.weight": [24, 8],
    "model.layers.1.mlp.shared_experts.up_proj.weight": [16, 8],
    "model.layers.1.mlp.experts.0.up_proj.weight": [32, 8],
    "model.layers.1.mlp.experts.1.up_proj.weight": [32, 8],
}
ENDS, LAYERS, EXPERTS = 800, 8 + 192 + 128, 512


def write(folder: Path, tensors: dict[str, list[int]], kind: str = "BF16") -> Path:
    """Model files with a header each, and no numbers."""
    for number, (name, shape) in enumerate(tensors.items()):
        tensor = {"dtype": kind, "shape": shape, "data_offsets": [0, 0]}
        header = json.dumps({"__metadata__": {"format": "pt"}, name: tensor}).encode()
        file = folder / f"model-{number}.safetensors"
        file.write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


def test_one_gpu_holds_eighteen_bytes_of_every_number(tmp_path: Path) -> None:
    memory = training_memory(write(tmp_path, TENSORS), {}, Parallelism(1, 1, 1, 1))
    numbers = 2 * ENDS + LAYERS + EXPERTS
    assert memory == {
        "weights of a GPU": 2 * numbers,
        "gradients of a GPU": 4 * numbers,
        "optimizer of a GPU": 12 * numbers,
        "sum, activations left out": 18 * numbers,
    }


def test_the_optimizer_is_cut_up_over_the_copies_of_the_model(tmp_path: Path) -> None:
    parallel = Parallelism(tensor=2, pipeline=1, context=2, data=2)
    memory = training_memory(write(tmp_path, TENSORS), {}, parallel)
    dense, experts = (2 * ENDS + LAYERS) // 2, EXPERTS // 2
    assert memory["weights of a GPU"] == 2 * (dense + experts)
    assert memory["optimizer of a GPU"] == 12 * (dense + experts) // 4


def test_experts_are_spread_over_gpus_of_their_own(tmp_path: Path) -> None:
    parallel = Parallelism(tensor=2, pipeline=1, context=1, data=2, expert=2)
    options = {"expert_tensor_parallel_size": 1}
    memory = training_memory(write(tmp_path, TENSORS), options, parallel)
    dense, experts = (2 * ENDS + LAYERS) // 2, EXPERTS // 2
    assert memory["gradients of a GPU"] == 4 * (dense + experts)
    assert memory["optimizer of a GPU"] == 12 * (dense // 2 + experts // 2)


def test_of_a_pipeline_the_gpu_that_holds_most_is_meant(tmp_path: Path) -> None:
    folder = write(tmp_path, TENSORS)
    memory = training_memory(folder, {}, Parallelism(1, 2, 1, 1))
    assert memory["weights of a GPU"] == 2 * (LAYERS // 2 + ENDS + EXPERTS // 2)


@pytest.mark.parametrize(
    ("tensors", "kind"),
    [
        ({"model.visual.blocks.0.weight": [8, 8], **TENSORS}, "BF16"),
        (TENSORS, "I32"),
        ({}, "BF16"),
    ],
)
def test_where_the_files_do_not_tell_nothing_is_said(
    tmp_path: Path, tensors: dict[str, list[int]], kind: str
) -> None:
    folder = write(tmp_path, tensors, kind)
    assert training_memory(folder, {}, Parallelism(1, 1, 1, 1)) == {}
    (folder / "broken.safetensors").write_bytes(b"\x09\0\0\0\0\0\0\0{")
    assert read_size(folder) is None


def test_an_optimizer_in_the_hosts_memory_is_not_guessed_at(tmp_path: Path) -> None:
    folder = write(tmp_path, TENSORS)
    assert training_memory(folder, {"optimizer_cpu_offload": True}, Parallelism(1, 1, 1, 1)) == {}


def test_the_plan_has_it(tmp_path: Path) -> None:
    config = make_config(tmp_path, COLOCATED)
    assert make_plan(config).memory == {}, "a file without a header"
    (tmp_path / "model" / "model.safetensors").unlink()
    write(tmp_path / "model", TENSORS)
    memory = make_plan(config).memory
    dense = (2 * ENDS + LAYERS) // 2
    assert memory["optimizer of a GPU"] == 12 * (dense + EXPERTS // 2) // 4


def test_the_counted_numbers_are_those_of_the_loaded_model(demo_model: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(demo_model)
    size = read_size(demo_model)
    assert size is not None
    assert size.layers + sum(size.ends) == model.num_parameters()
