"""How many rollouts a CPU-second gives: retrain against TRL's own `environment_factory`.

Both loops run in one process, alternating, on the same model, environment, prompts and sampling,
and must write the same tokens: the run stops where they differ. TRL's side is `_generate` of a real
`GRPOTrainer`. Retrain's side plays the same class through `EnvironmentBridge` and
`TransformersEngine`, and ends with validated samples, logprobs included, which TRL's does not give.
Last comes a whole single-turn training step, bare and through retrain. Only ratios of CPU time are
printed: the median over the repeats.

    python benchmarks/trl_multiturn.py [--repeats 5] [--skip-large] [--skip-step]
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import warnings
from dataclasses import dataclass
from importlib.metadata import version

import torch
from multiturn_loops import Played, RetrainLoop, TRLLoop
from multiturn_model import forced
from multiturn_workload import Shape, Workload, make_workload
from single_turn_step import step_ratio
from transformers.utils import logging


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, and the ratio that we aim at."""

    name: str
    shape: Shape
    aim: float
    repeats: int | None = None


CASES = (
    Case("even short work", Shape(16, (3, 3), (16, 16), 40, 128, 4), 1.5),
    Case("long-tailed, up to 8 turns", Shape(16, (1, 8), (2, 128), 40, 128, 4), 3.0),
)
LARGE = Case("0.1B, long prompts", Shape(4, (4, 4), (8, 8), 500, 768, 13), 2.0, repeats=1)
STEP_AIM = 1.02


@dataclass(frozen=True, slots=True)
class Ratios:
    """Rollouts per CPU-second, retrain's over TRL's, of each repeat."""

    values: list[float]

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)


def compare(work: Workload, repeats: int) -> Ratios:
    """Play a workload on both sides, in turns, after one round that does not count."""
    with tempfile.TemporaryDirectory() as folder, forced(work.table):
        theirs, ours = TRLLoop(work, folder), RetrainLoop(work)
        try:
            require_same(work, theirs.play(), ours.play())
            values = []
            for _ in range(repeats):
                one, other = theirs.play(), ours.play()
                require_same(work, one, other)
                values.append(one.seconds / other.seconds)
            return Ratios(values)
        finally:
            ours.close()


def require_same(work: Workload, theirs: Played, ours: Played) -> None:
    """Stop where the two loops did not write the same tokens, or not those of the workload."""
    if theirs.tokens != ours.tokens:
        raise RuntimeError("the loops wrote different tokens")
    if theirs.sampled != ours.sampled:
        raise RuntimeError("the loops differ in what the model wrote and what the tools answered")
    if [sum(mask) for mask in ours.sampled] != work.sampled:
        raise RuntimeError("the loops wrote other tokens than the workload's")


def report(case: Case, repeats: int) -> None:
    """Run a case and print its line."""
    work = make_workload(case.shape)
    ratios = compare(work, case.repeats or repeats)
    print(
        f"{case.name}: {ratios.median:.2f} x (aim {case.aim}; {min(ratios.values):.2f} to "
        f"{max(ratios.values):.2f} over {len(ratios.values)})\n"
        f"    both: {len(work.rows)} rollouts, {sum(work.turns)} turns "
        f"({min(work.turns)} to {max(work.turns)}), {sum(work.sampled)} sampled tokens, "
        f"streams up to {work.positions} tokens, {work.model.num_parameters() / 1e6:.2f} M "
        "parameters; the same tokens on both sides",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12, help="training steps of the last case")
    parser.add_argument("--skip-large", action="store_true")
    parser.add_argument("--skip-step", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "trl"))
    print(f"Python {platform.python_version()}, {versions}; CPU time, one thread")
    print("rollouts per CPU-second, retrain / environment_factory:")
    for case in (*CASES, *(() if args.skip_large else (LARGE,))):
        report(case, args.repeats)
    if not args.skip_step:
        ratio, low, high = step_ratio(args.steps)
        print(
            f"single-turn training step, CPU time, retrain / bare TRL: {ratio:.3f} x "
            f"(aim at most {STEP_AIM}; quartiles {low:.3f} to {high:.3f} over {args.steps} steps)"
        )


if __name__ == "__main__":
    main()
