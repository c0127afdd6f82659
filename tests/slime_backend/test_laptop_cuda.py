"""The pretended device, in a process of its own: it changes torch for good."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends.slime.laptop.environment import SITE

pytest.importorskip("torch", reason="needs torch: pip install 'retrain[engine]'")

ROOT = Path(__file__).parents[2]

CODE = """
import torch
assert not torch.cuda.is_available()
on = torch.zeros(2, device="cuda", pin_memory=True)
assert on.device.type == "cpu" and torch.empty(1, device=torch.cuda.current_device()) is not None
assert on.cuda() is on and on.to("cuda:0").device.type == "cpu"
assert on.to(device=torch.device("cuda"), dtype=torch.bfloat16).dtype is torch.bfloat16
assert on.type() == "torch.cuda.FloatTensor" and on.bfloat16().type() == "torch.cuda.BFloat16Tensor"
assert on.type(torch.float64).dtype is torch.float64
assert torch.empty_like(on, device=torch.device("cpu"), pin_memory=True).shape == on.shape
layer = torch.nn.Linear(2, 2).cuda().to("cuda")
assert layer(on).device.type == "cpu"
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    stream.wait_stream(torch.cuda.current_stream())
    assert stream.record_event().query()
torch.cuda.synchronize(); torch.cuda.empty_cache(); torch.cuda.set_device(0)
assert torch.cuda.memory_allocated() == 0 and torch.cuda.device_count() == 1
torch.cuda.manual_seed(3); state = torch.cuda.get_rng_state(); first = torch.rand(3)
torch.cuda.set_rng_state(state)
assert torch.equal(torch.rand(3), first)
assert torch.cuda.default_generators[torch.cuda.current_device()] is torch.default_generator
called = []
torch.cuda._lazy_call(lambda: called.append(1))
assert called == [1], "what waits for CUDA would wait for ever"
from torch.utils.checkpoint import checkpoint
leaf = torch.ones(2, requires_grad=True)
checkpoint(lambda x: (x * 3).sum(), leaf, use_reentrant=False).backward()
assert leaf.grad.tolist() == [3, 3]
print("as on a GPU")
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(SITE), str(ROOT))),
            "TORCHDYNAMO_DISABLE": "1",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )


def test_what_asks_for_a_gpu_gets_the_cpu() -> None:
    done = run(CODE)
    assert done.stdout == "as on a GPU\n", done.stderr


def test_the_compiler_loads_beside_the_pretended_device() -> None:
    done = run("import torch\nprint(torch.compile(lambda x: x + 1)(torch.ones(1)).item())")
    assert done.stdout == "2.0\n", done.stderr
