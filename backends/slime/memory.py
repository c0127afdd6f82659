"""What training holds on each GPU, from the sizes of the model's tensors.

Megatron's own report has the same arithmetic (`megatron/training/theoretical_memory_usage.py`):
2 bytes of a weight in bfloat16 and 4 of its gradient in float32 on every copy; 12 of the optimizer
(the weight in float32 and Adam's two moments), which slime always has cut up over the copies
(`use_distributed_optimizer`, slime/backends/megatron_utils/arguments.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.slime.sizes import Parallelism

_TYPES = frozenset(("F32", "F16", "BF16", "F8_E4M3"))
"""Types of which a number of the file is a number of the model; int4 is packed."""
_SCALES = "_scale_inv"
_ENDS = ("embed_tokens.weight", "lm_head.weight")
_EXPERTS = ".experts."
_IMAGES = ("visual.", "vision_")


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How many numbers a model has.

    Attributes:
        layers: In its layers, experts left out.
        experts: In its experts.
        ends: [1 or 2] in its embedding and, where that is another, its head.
    """

    layers: int
    experts: int
    ends: tuple[int, ...]

    def share(self, parallel: Parallelism, expert_tensor: int) -> tuple[int, int]:
        """The numbers of the GPU that holds most: without experts, and of experts.

        Args:
            parallel: How the model is spread.
            expert_tensor: GPUs that share an expert's matrices.
        """
        ends = sum(self.ends) if parallel.pipeline == 1 else max(self.ends, default=0)
        dense = math.ceil((self.layers / parallel.pipeline + ends) / parallel.tensor)
        return dense, math.ceil(
            self.experts / (parallel.pipeline * parallel.expert * expert_tensor)
        )


def training_memory(
    folder: Path, options: Mapping[str, Any], parallel: Parallelism
) -> dict[str, int]:
    """Bytes on each GPU that trains, by what they hold; activations and SGLang come on top.

    Args:
        folder: The model's.
        options: The `slime_X` options.
        parallel: How the model is spread.

    Returns:
        Empty where nobody can tell: the tensors cannot be read, some are packed or belong to
        images, or part of the optimizer stands in the host's memory.
    """
    size = read_size(folder)
    if size is None or options.get("optimizer_cpu_offload"):
        return {}
    slices = int(options.get("expert_tensor_parallel_size") or parallel.tensor)
    dense, experts = size.share(parallel, slices)
    copies = parallel.data * parallel.context
    all_gpus = parallel.tensor * copies
    expert_copies = max(all_gpus // (parallel.expert * slices), 1)
    parts = {
        "weights of a GPU": 2 * (dense + experts),
        "gradients of a GPU": 4 * (dense + experts),
        "optimizer of a GPU": math.ceil(12 * (dense / copies + experts / expert_copies)),
    }
    return {**parts, "sum, activations left out": sum(parts.values())}


def read_size(folder: Path) -> ModelSize | None:
    """Count a model's numbers by the headers of its files; None where they do not tell.

    A file begins with the length of its header in 8 bytes, little-endian, and the header as JSON
    (safetensors' documentation, "Format").
    """
    layers, experts = 0, 0
    ends: list[int] = []
    try:
        tensors = [tensor for file in folder.glob("*.safetensors") for tensor in _header(file)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    for name, kind, numbers in tensors:
        if kind not in _TYPES or any(word in name for word in _IMAGES):
            return None
        if name.endswith(_SCALES):
            continue
        if name.endswith(_ENDS):
            ends.append(numbers)
        elif _EXPERTS in name:
            experts += numbers
        else:
            layers += numbers
    return ModelSize(layers, experts, tuple(ends)) if layers else None


def _header(file: Path) -> Iterator[tuple[str, str, int]]:
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(length))
    for name, tensor in header.items():
        if name != "__metadata__":
            yield name, tensor["dtype"], math.prod(tensor["shape"])
