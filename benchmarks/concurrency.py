"""Many episodes on one event loop: what a turn costs beside engine and environment, and memory.

All episodes run at the same time; every answer takes `--engine` seconds and every reply
`--environment` seconds, in which nothing is computed. What is left of the process's CPU time, once
the making of answers is taken out, is the loop: ours renders and tokenizes each reply, reads each
answer and keeps exact tokens. The peer, verifiers' `MultiTurnEnv` over its own client, sends
messages and is given the tokens of both prompt and answer, so it has nothing to tokenize.

With `--server` both ask one server, a process of its own, over HTTP, each through its own client:
ours SGLang's /generate, theirs the OpenAI client's chat completions. The client counts then.

Memory is what the process holds at most, so this runs on Linux. A process needs a file for each
episode then, and raises its own bound as far as the system lets it (`ulimit -Hn`).

Each side runs in a process of its own, in turns; `--verifiers` names a Python in whose environment
verifiers is installed (`pip install "verifiers<0.2"`: release 0.4 has no such loop).

    python benchmarks/concurrency.py [--episodes 2000] [--turns 10] [--verifiers VENV/bin/python]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bridge_overhead import load_tokenizer
from concurrent_side import ANSWER

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Cost:
    """What one side took.

    Attributes:
        us_per_turn: Microseconds of CPU time.
        peak_bytes: What the process held at most, beyond what it held before the episodes.
    """

    us_per_turn: float
    peak_bytes: int


@contextmanager
def server(args: argparse.Namespace) -> Iterator[str]:
    """The URL of a server that answers both sides; none where answers are made in process."""
    if not args.server:
        yield ""
        return
    tokenizer = load_tokenizer(args.tokenizer)
    ids = tokenizer.encode(ANSWER * (args.tokens // 16 + 1), add_special_tokens=False)
    answer = {"ids": [*ids[: args.tokens - 1], tokenizer.eos_token_id], "text": ANSWER}
    command = [sys.executable, str(HERE / "concurrent_server.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(answer) + "\n")
        process.stdin.flush()
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def play(python: str, script: str, args: argparse.Namespace, url: str) -> Cost:
    """Run one side once.

    Args:
        python: Its interpreter.
        script: Its file's name.
        args: The command line.
        url: Of the server; "" for none.

    Raises:
        SystemExit: It failed; what it wrote is said.
    """
    given = {name: getattr(args, name) for name in ("episodes", "turns", "tokens", "engine")}
    given |= {"environment": args.environment, "url": url}
    options = [f"--{name}={value}" for name, value in given.items()]
    paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    variables.setdefault("OPENAI_API_KEY", "none")
    if args.tokenizer is not None:
        variables["CONCURRENCY_TOKENIZER"] = str(args.tokenizer)
    command = [python, str(HERE / script), *options]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{script} failed under {python}:\n{done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def spread(values: Sequence[float], digits: int) -> str:
    """The median, the least and the greatest."""
    shown = [f"{value:.{digits}f}" for value in (median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def print_side(name: str, costs: Sequence[Cost], episodes: int) -> None:
    """Print what a side took."""
    microseconds = spread([cost.us_per_turn for cost in costs], 0)
    peak = median(cost.peak_bytes for cost in costs)
    print(
        f"{name:>10}: {microseconds} us of CPU time per turn, "
        f"{peak / 2**20:.0f} MiB at most, {peak / episodes / 2**10:.1f} KiB per episode"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=2000, help="at the same time")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=64, help="of a model turn")
    parser.add_argument("--engine", type=float, default=0.02, help="seconds of an answer")
    parser.add_argument("--environment", type=float, default=0.05, help="seconds of a reply")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--server", action="store_true", help="answers come over HTTP, at once")
    parser.add_argument("--verifiers", help="a Python that has verifiers")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer's folder, not Qwen2.5's")
    args = parser.parse_args()
    ours: list[Cost] = []
    theirs: list[Cost] = []
    with server(args) as url:
        for _ in range(args.repeats):
            ours.append(play(sys.executable, "concurrent_retrain.py", args, url))
            if args.verifiers:
                theirs.append(play(args.verifiers, "concurrent_verifiers.py", args, url))
    print_side("retrain", ours, args.episodes)
    if not theirs:
        print("no ratio: name a Python that has verifiers with --verifiers to run the peer")
        return
    print_side("verifiers", theirs, args.episodes)
    pairs = list(zip(ours, theirs, strict=True))
    turn = spread([mine.us_per_turn / other.us_per_turn for mine, other in pairs], 2)
    memory = spread([mine.peak_bytes / other.peak_bytes for mine, other in pairs], 2)
    print(f"retrain / verifiers: {turn} x the CPU time, {memory} x the memory")


if __name__ == "__main__":
    main()
