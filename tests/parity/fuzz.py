"""Random episodes through the whole path of every backend; prints what differs.

PYTHONPATH=tests python tests/parity/fuzz.py --episodes 10000 --seed 1

TRL is a real GRPOTrainer, read at its loss, and torch the native loop. slime is its own conversion
and schedule where RETRAIN_SLIME names a checkout that can be imported, and the port of its contract
otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz_cases import draw_cases, segmented, takers
from fuzz_playing import (
    Played,
    play,
    refused_by,
    shared_tokenizers,
    slime_reading,
    torch_reading,
    trl_reading,
)
from fuzz_slopes import slope_faults
from fuzz_witness import witness_faults
from readings import rows_of

from retrain.config import RunConfig
from retrain.errors import ConfigError
from retrain.parity import row_differences
from retrain.parity.report import outcome_of, report_of
from retrain.parity.weights import follows_its_rule
from retrain.types import Action


@dataclass
class Tally:
    """What has been played.

    Attributes:
        episodes: Episodes of one segment.
        segmented: Episodes that may have several: TRL refuses them.
        tokens: The tokens of all.
        trained: Those that are trained on.
        differing: Differences, each described.
        seen: How often each thing happened.
    """

    episodes: int = 0
    segmented: int = 0
    tokens: int = 0
    trained: int = 0
    differing: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)


def fuzz(
    episodes: int, seed: int, folder: Path, *, history: str = "both", progress: bool = False
) -> Tally:
    """Play at least so many episodes.

    Args:
        episodes: How many.
        seed: Everything follows from it.
        folder: Where models are kept.
        history: "kept", "rewritten" (in segments), or "both".
        progress: Whether a line is printed for each configuration.
    """
    tally = Tally()
    with shared_tokenizers():
        for number, config in enumerate(draw_cases(seed, folder)):
            if (tally.segmented if history == "rewritten" else tally.episodes) >= episodes:
                return tally
            if history not in ("both", "rewritten" if segmented(config) else "kept"):
                continue
            before = len(tally.differing)
            compare(play(config), tally)
            if progress:
                name = f"{config.algorithm.name} on {_model(config)}"
                found = len(tally.differing) - before
                count = tally.episodes + tally.segmented
                print(f"{number}: {name}: {count:,} episodes, {found} differing", flush=True)
    raise AssertionError("unreachable: cases have no end")


READERS = {"slime": slime_reading, "torch": torch_reading, "trl": trl_reading}


def compare(played: Played, tally: Tally) -> None:
    """Put every backend beside the recording, and the recording beside the engine's log."""
    config, groups = played.recorded.config, played.recorded.groups
    renderer = played.composition.renderer
    rows = rows_of(played.composition.data_format, groups)
    faults = list(witness_faults(groups, rows, played.engine, config.algorithm.name))
    taking = takers(config)
    for name in READERS:
        if refused_by(name, played.recorded) is (name in taking):
            faults.append(f"{name} {'refuses' if name in taking else 'takes'} it")
    readings = [READERS[name](played.recorded) for name in taking]
    for reading in readings:
        faults += map(str, row_differences(rows, reading.loss, renderer.decode))
        faults += slope_faults(config, reading.loss, reading.slopes) if reading.slopes else ()
        faults += [] if follows_its_rule(reading.loss) else [f"{reading.loss.backend}: weights"]
    outcomes = [outcome_of(rows, reading.loss, renderer.decode) for reading in readings]
    weights = report_of(rows, outcomes).weights
    faults += [f"{w.backends}: loss weights" for w in weights if not w.explained]
    count = sum(len(group.trajectories) for group in groups)
    tally.segmented += count * segmented(config)
    tally.episodes += count * (not segmented(config))
    tally.differing += [f"{config.experiment_name}: {fault}" for fault in faults]
    tally.tokens += sum(len(row.tokens) for row in rows)
    tally.trained += sum(row.trained for row in rows)
    tally.seen.update(_what_happened(config, played))
    tally.seen.update(f"runs read from {reading.loss.source}" for reading in readings)


def _what_happened(config: RunConfig, played: Played) -> Sequence[str]:
    hyper = config.algorithm.hyperparameters
    found = [f"runs of {config.algorithm.name}", f"runs over {_model(config)}"]
    found += [f"runs with KL {hyper.kl_estimator}"] if hyper.kl_coef else []
    found += ["runs with tis"] if hyper.importance_correction == "tis" else []
    if hyper.global_batch_size < hyper.rollout_batch_size * hyper.n_samples_per_prompt:
        found.append("several optimizer steps")
    for group in played.recorded.groups:
        valid = [trajectory.valid for trajectory in group.trajectories]
        found += ["uneven group"] if len(set(valid)) == 2 else []
        for trajectory in group.trajectories:
            found += [f"stop: {trajectory.stop_reason}"]
            found += ["several segments"] if len(trajectory.segments) > 1 else []
            found += [f"{min(len(trajectory.turns), 4)} turns"]
            found += [f"failed: {trajectory.error.boundary}"] if trajectory.error else []
            for turn in trajectory.turns:
                calls = len(turn.action.tool_calls)
                found += ["tool call"] * (calls == 1) + ["parallel calls"] * (calls > 1)
                found += ["parse error"] if turn.action.parse_error else []
                found += ["blank turn"] if _blank(turn.action) else []
    return found


def _blank(action: Action) -> bool:
    """Whether a turn says nothing at all."""
    said = (action.text, action.reasoning, action.parse_error or "")
    return not action.tool_calls and not "".join(said).strip()


def _model(config: RunConfig) -> str:
    return Path(config.model.name_or_path).name.removeprefix("model-")


def main() -> None:
    """Read the command line, play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--history", choices=("kept", "rewritten", "both"), default="both")
    parser.add_argument("--folder", type=Path, help="where models are kept; default: nowhere")
    parser.add_argument("--quiet", action="store_true", help="no line for each configuration")
    chosen = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch)
        tally = fuzz(
            chosen.episodes,
            chosen.seed,
            folder,
            history=chosen.history,
            progress=not chosen.quiet,
        )
    for what, count in sorted(tally.seen.items()):
        print(f"  {what}: {count:,}")
    for fault in tally.differing[:20]:
        print(fault)
    seconds = time.perf_counter() - began
    print(
        f"episodes {tally.episodes:,}, differing {len(tally.differing)}, seed {chosen.seed}, "
        f"seconds {seconds:.0f} (and {tally.segmented:,} in segments; "
        f"{tally.tokens:,} tokens, {tally.trained:,} of them trained)"
    )
    raise SystemExit(bool(tally.differing))


if __name__ == "__main__":
    try:
        main()
    except ConfigError as error:
        sys.exit(f"error: {error}")
