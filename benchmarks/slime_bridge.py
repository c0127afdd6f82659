"""Our `generate` against slime's own hand-written multi-turn pattern, over the same server.

The pattern stands in `slime_pattern.py`. Both sides answer the same prompts, hear the same replies
and train on the same tokens; the server, in a process of its own, gives prepared answers, so that
what is left is the client. Times are CPU time of this process, the least over repeats in turns.

The pattern sends its turns by slime's `post`. Ours go through retrain's own client, as they do in a
run; with `--slimes-post` they go through slime's too, which tells the rest of the work apart.

    PYTHONPATH=SLIME python benchmarks/slime_bridge.py [--turns 8] [--episodes 16] [--repeats 7]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge_overhead import load_tokenizer
from slime_pattern import Pattern

from backends.slime import plugin
from backends.slime.framework import framework
from backends.slime.handover import handover_document
from retrain.config import RunConfig
from retrain.environment.base import Environment
from retrain.types import Action, Message, Observation, StepResult, Task

REPLY = "Noted. The next number is 42; go on with the sum, and say what it is so far."
ANSWER = "So far the sum of the numbers is 128, and the one after that makes it a little more. "
POSITIONS = 32768


class Replies(Environment):
    """Says the same after each turn but the last."""

    def __init__(self, *, turns: int) -> None:
        self._turns = turns

    async def reset(self, task: Task, seed: int) -> Observation:
        """Give the prompt."""
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """Reply, or end."""
        self._turns -= 1
        if not self._turns:
            return StepResult(Observation(), 1.0, terminated=True)
        return StepResult(Observation((Message("user", REPLY),)))


@dataclass(frozen=True, slots=True)
class Bench:
    """One workload.

    Attributes:
        args: Slime's arguments, with retrain's configuration on them.
        pattern: The peer.
        episodes: Episodes at a time.
    """

    args: Namespace
    pattern: Pattern
    episodes: int

    async def time(self, generate: Callable[..., Any]) -> tuple[float, list[Any]]:
        """CPU seconds of all episodes together, and their samples."""
        make = framework().sample
        prompt = [{"role": "user", "content": "Add the numbers that I tell you."}]
        samples = [make(index=n, group_index=n, prompt=prompt) for n in range(self.episodes)]
        params = {"max_new_tokens": POSITIONS // 2, "temperature": 1.0, "no_stop_trim": True}
        gc.collect()
        began = time.process_time()
        done = await asyncio.gather(*(generate(self.args, sample, params) for sample in samples))
        return time.process_time() - began, done


@contextmanager
def server(tokenizer: Any, tokens: int) -> Iterator[int]:
    """The scripted server, and its port."""
    ids = tokenizer.encode(ANSWER * (tokens // 16 + 1), add_special_tokens=False)[: tokens - 1]
    answer = {"ids": [*ids, tokenizer.eos_token_id], "text": tokenizer.decode(ids)}
    script = [sys.executable, str(Path(__file__).with_name("scripted_sglang.py"))]
    process = subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(answer) + "\n")
        process.stdin.flush()
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def make_args(folder: Path, tokenizer: Any, port: int, turns: int, episodes: int) -> Namespace:
    """Slime's arguments, as far as both sides read them."""
    tokenizer.save_pretrained(folder)
    facts = {
        "model_type": "qwen2",
        "vocab_size": len(tokenizer) + 256,
        "max_position_embeddings": POSITIONS,
    }
    (folder / "config.json").write_text(json.dumps(facts))
    config = RunConfig.model_validate(
        {
            "experiment_name": "bench",
            "model": {"name_or_path": str(folder)},
            "environment": {
                "type": "slime_bridge:Replies",
                "env_specific_config": {"turns": turns},
            },
            "prompt_source": {"type": "list", "source_config": {"items": ["unused"]}},
            "algorithm": {
                "name": "grpo",
                "backend": "slime",
                "hyperparameters": {"num_iterations": 1, "max_response_len": POSITIONS // 2},
            },
        }
    )
    return Namespace(
        **handover_document(config, folder / "run"),
        sglang_router_ip="127.0.0.1",
        sglang_router_port=port,
        sglang_server_concurrency=episodes,
        rollout_num_engines=1,
        use_distributed_post=False,
    )


def trains_on(sample: Any) -> tuple[tuple[int, float], ...]:
    """The tokens that a sample trains, with their logprobs."""
    tokens = sample.tokens[-sample.response_length :]
    rows = zip(tokens, sample.rollout_log_probs, sample.loss_mask, strict=True)
    return tuple((token, logprob) for token, logprob, mask in rows if mask)


async def measure(bench: Bench, repeats: int) -> tuple[float, float]:
    """The least CPU seconds of ours and of the pattern."""
    ours: list[float] = []
    theirs: list[float] = []
    for repeat in range(repeats + 1):
        mine, samples = await bench.time(plugin.generate)
        other, peers = await bench.time(bench.pattern.generate)
        trained = {trains_on(sample) for sample in (*samples, *peers)}
        assert len(trained) == 1, "both sides train on the same tokens with the same logprobs"
        if repeat:
            ours.append(mine)
            theirs.append(other)
    return min(ours), min(theirs)


async def measure_alone(bench: Bench, repeats: int) -> float:
    """The least CPU seconds of ours, where there is no slime."""
    return min([(await bench.time(plugin.generate))[0] for _ in range(repeats + 1)][1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64, help="of a model turn")
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--slimes-post", action="store_true", help="for ours as well")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer's folder, not Qwen2.5's")
    given = parser.parse_args()
    tokenizer = load_tokenizer(given.tokenizer)
    with (
        tempfile.TemporaryDirectory() as folder,
        server(tokenizer, given.tokens) as port,
    ):
        args = make_args(Path(folder), tokenizer, port, given.turns, given.episodes)
        bench = Bench(args, Pattern(tokenizer, given.turns, REPLY), given.episodes)
        turns = given.turns * given.episodes
        if not framework().real:
            alone = asyncio.run(measure_alone(bench, given.repeats))
            print(f"retrain: {1e3 * alone / turns:.3f} ms per turn; no ratio: slime is not")
            print("importable; put its checkout on PYTHONPATH to run the peer")
            return
        from slime.utils.http_utils import init_http_client

        init_http_client(args)
        args.use_distributed_post = given.slimes_post
        ours, theirs = asyncio.run(measure(bench, given.repeats))
    print(f"{'':>10} {'ms per turn':>12} {'ms per sample':>14}")
    for name, seconds in (("retrain", ours), ("pattern", theirs)):
        print(f"{name:>10} {1e3 * seconds / turns:12.3f} {1e3 * seconds / given.episodes:14.3f}")
    print(f"{'ratio':>10} {ours / theirs:12.2f} {ours / theirs:14.2f}")


if __name__ == "__main__":
    main()
