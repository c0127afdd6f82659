"""One whole optimizer step of the native loop against TRL's, as a ratio.

Both train copies of one random model on the same rows; nothing is generated. TRL's side is a real
`GRPOTrainer` inside its own `train()`: batch, passes, clipping, optimizer, schedule. The native
side is a `PyTorchTrainingBackend`: the same, padded and packed. On a CPU the times are those of the
process, all threads together, and the sides take turns, so that other load does not count; on a GPU
one side trains after the other, and wall time and peak memory are told.

    python benchmarks/native_step.py [--preset small] [--steps 5]
    python benchmarks/native_step.py --device cuda --dtype bfloat16 --preset 0.5b
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from native_step_trl import train_trl
from native_step_work import PRESETS, Work, make_model

from backends.torch.compute.passes import PassSettings
from backends.torch.compute.schedule import OptimizerSettings, make_optimizer
from backends.torch.objective import PolicyObjective
from backends.torch.pytorch import PyTorchTrainingBackend

TRL, PADDED, PACKED = "trl", "native, padded", "native, packed"


@dataclass
class Clock:
    """Times steps, and on a GPU the most memory that they took."""

    cuda: bool
    seconds: list[float] = field(default_factory=list)
    peak: int = 0
    _began: float = 0.0

    def begin(self) -> None:
        """Start the clock."""
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        self._began = self._now()

    def end(self) -> None:
        """Stop it, when the device is done."""
        if self.cuda:
            torch.cuda.synchronize()
            self.peak = max(self.peak, torch.cuda.max_memory_allocated())
        self.seconds.append(self._now() - self._began)

    def _now(self) -> float:
        return time.perf_counter() if self.cuda else time.process_time()


@contextmanager
def native(work: Work, *, packed: bool, cuda: bool, half: bool) -> Iterator[Callable[[], None]]:
    """A native backend's whole step."""
    device = torch.device("cuda" if cuda else "cpu")
    model = make_model(work).to(device)
    if work.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    settings, batch = OptimizerSettings(learning_rate=1e-6), work.batch()
    passes = PassSettings(
        micro_batch_tokens=work.budget,
        packed=packed,
        autocast=torch.bfloat16 if half else None,
        device=device,
    )

    async def one(backend: PyTorchTrainingBackend) -> None:
        computed, stepped = backend.forward_backward(batch), backend.optim_step()
        await computed
        await stepped

    with (
        tempfile.TemporaryDirectory() as folder,
        PyTorchTrainingBackend(
            model,
            make_optimizer(model, settings),
            PolicyObjective(),
            checkpoint_dir=Path(folder),
            settings=settings,
            passes=passes,
        ) as backend,
    ):
        yield lambda: asyncio.run(one(backend))


def in_turns(work: Work, steps: int, clocks: dict[str, Clock], *, half: bool) -> None:
    """A native step of each kind after each of TRL's."""
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(native(work, packed=name == PACKED, cuda=False, half=half))
            for name in (PADDED, PACKED)
        }

        def end() -> None:
            clocks[TRL].end()
            for name, step in sides.items():
                clocks[name].begin()
                step()
                clocks[name].end()

        train_trl(work, steps, cuda=False, half=half, begin=clocks[TRL].begin, end=end)


def one_by_one(work: Work, steps: int, clocks: dict[str, Clock], *, half: bool) -> None:
    """Each side alone on the GPU, so that its memory is its own."""
    train_trl(work, steps, cuda=True, half=half, begin=clocks[TRL].begin, end=clocks[TRL].end)
    for name in (PADDED, PACKED):
        gc.collect()
        torch.cuda.empty_cache()
        with native(work, packed=name == PACKED, cuda=True, half=half) as step:
            for _ in range(steps):
                clocks[name].begin()
                step()
                clocks[name].end()


def report(work: Work, clocks: dict[str, Clock]) -> None:
    """Print the median of each side, its ratio to TRL's step by step, and on a GPU its memory."""
    tokens = sum(len(row.tokens) for row in work.batch().rows)
    for name, clock in clocks.items():
        took = clock.seconds[1:]  # the first step fills caches
        ratios = [one / other for one, other in zip(took, clocks[TRL].seconds[1:], strict=True)]
        middle = statistics.median(took)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        kind = "s" if clock.cuda else "s of CPU"
        memory = f"   {clock.peak / 2**30:6.2f} GiB at most" if clock.cuda else ""
        print(
            f"{name:15} {middle:8.3f} {kind}   {tokens / middle:9,.0f} tokens/s   "
            f"ratio {statistics.median(ratios):.2f} ({spread}){memory}"
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=PRESETS, default="small")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--steps", type=int, default=5, help="steps that count, after one more")
    given = parser.parse_args(arguments)
    cuda, half = given.device == "cuda", given.dtype == "bfloat16"
    if cuda and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU here; run it where nvidia-smi shows one")
    torch.set_num_threads(torch.get_num_threads() if cuda else 1)
    work = PRESETS[given.preset]()
    clocks = {name: Clock(cuda) for name in (TRL, PADDED, PACKED)}
    (one_by_one if cuda else in_turns)(work, given.steps + 1, clocks, half=half)
    report(work, clocks)


if __name__ == "__main__":
    main()
