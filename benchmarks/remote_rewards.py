"""Scoring over HTTP: `remote` against the server's own limit, and against clients written by hand.

A server in a process of its own takes 50 ms for a request and works on N at once; more wait. Its
limit is what it would have taken were it never idle: the time for which requests held its N places,
by its own clock, over N. A busy machine makes that more than requests / N x 50 ms. Every side
scores the same samples with at most 2 N requests at once, so that the server need not wait for the
next one; 1.00 is the limit itself. With `--faults`, one request in twenty gets HTTP 500, and what
counts is how many samples have a score at the end.

    python benchmarks/remote_rewards.py [--samples 2000] [--parallel 16] [--seconds 0.05]
                                        [--repeats 3] [--faults]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import aiohttp
from aiohttp import web

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.remote import Remote, RemoteSettings

BATCH = 8
FAULT_EVERY = 20

Score = Callable[[str, Sequence[Case]], Coroutine[Any, Any, int]]


@dataclass(frozen=True, slots=True)
class Run:
    """What one side took.

    Attributes:
        seconds: Wall time.
        limit: What the server would have taken were it never idle.
        cpu: CPU time of this process; the server's is not in it.
        scored: How many samples have a score.
    """

    seconds: float
    limit: float
    cpu: float
    scored: int


def serve(parallel: int, seconds: float, faults: bool) -> None:
    """Serve until the process is ended; prints the port."""
    room, count, held = asyncio.Semaphore(parallel), 0, 0.0

    async def score(request: web.Request) -> web.Response:
        nonlocal count, held
        body = await request.json()
        count += 1
        if faults and count % FAULT_EVERY == 0:
            return web.Response(status=500)
        async with room:
            began = time.perf_counter()
            await asyncio.sleep(seconds)
            held += time.perf_counter() - began
        items = body.get("items", [body])
        scores = [len(item["response"]) / 100 for item in items]
        return web.json_response(scores if "items" in body else scores[0])

    async def limit(request: web.Request) -> web.Response:
        return web.json_response(held / parallel)

    async def start() -> None:
        app = web.Application()
        app.router.add_post("/", score)
        app.router.add_get("/limit", limit)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(start())


@contextmanager
def server(parallel: int, seconds: float, faults: bool) -> Iterator[str]:
    """The URL of a server."""
    bounds = ["--parallel", str(parallel), "--seconds", str(seconds)]
    command = [sys.executable, __file__, "--serve", *bounds]
    process = subprocess.Popen(
        [*command, *(["--faults"] if faults else [])], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def by_remote(at_once: int, batch_size: int) -> Score:
    async def score(url: str, cases: Sequence[Case]) -> int:
        remote = Remote(
            RemoteSettings(url=url, concurrency=at_once, batch_size=batch_size, backoff=0.05)
        )
        try:
            given = await asyncio.gather(*map(remote, cases), return_exceptions=True)
        finally:
            await remote.aclose()
        wrong = [failure for failure in given if isinstance(failure, BaseException)]
        assert all(isinstance(failure, RewardFailure) for failure in wrong)
        return len(given) - len(wrong)

    return score


async def post(session: aiohttp.ClientSession, url: str, case: Case) -> bool:
    body = {"prompt": case.prompt, "response": case.response, "label": case.label}
    async with session.post(url, json=body) as response:
        return response.status == 200 and isinstance(await response.json(), float)


def by_new_connections(at_once: int) -> Score:
    """A bounded gather in which every request opens its own session, as quick scripts do."""

    async def score(url: str, cases: Sequence[Case]) -> int:
        room = asyncio.Semaphore(at_once)

        async def one(case: Case) -> bool:
            async with room, aiohttp.ClientSession() as session:
                return await post(session, url, case)

        return sum(await asyncio.gather(*map(one, cases)))

    return score


async def one_after_another(url: str, cases: Sequence[Case]) -> int:
    async with aiohttp.ClientSession() as session:
        return sum([await post(session, url, case) for case in cases])


def timed(score: Score, url: str, cases: Sequence[Case]) -> Run:
    before = limit_of(url)
    began, cpu = time.perf_counter(), time.process_time()
    scored = asyncio.run(score(url, cases))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Run(seconds, limit_of(url) - before, cpu, scored)


def limit_of(url: str) -> float:
    """The server's limit for all requests so far."""
    with urlopen(f"{url}limit") as reply:
        return float(reply.read())


def report(name: str, runs: Sequence[Run], samples: int) -> None:
    ratios = [run.seconds / run.limit for run in runs]
    cpu = statistics.median(run.cpu for run in runs) / samples * 1e6
    scored = sum(run.scored for run in runs) / len(runs) / samples
    print(
        f"| {name} | {statistics.median(ratios):.2f} x | {min(ratios):.2f} to {max(ratios):.2f} | "
        f"{cpu:.0f} us | {scored:.1%} |"
    )


def compare(samples: int, parallel: int, seconds: float, repeats: int, faults: bool) -> None:
    cases = [Case("y" * (n % 100), str(n), prompt="Q") for n in range(samples)]
    few, at_once = cases[: samples // parallel], 2 * parallel
    sides = (
        ("`remote`", by_remote(at_once, 1), cases),
        (f"`remote`, `batch_size: {BATCH}`", by_remote(at_once, BATCH), cases),
        ("gather, a new connection each", by_new_connections(at_once), cases),
        ("one after another", one_after_another, few),
    )
    print(f"{samples} samples, the server works on {parallel}, load {os.getloadavg()[0]:.0f}")
    print("| side | time / server's limit | range | CPU of a score | scored |")
    print("| --- | --- | --- | --- | --- |")
    for name, score, given in sides:
        with server(parallel, seconds, faults) as url:
            runs = [timed(score, url, given) for _ in range(repeats)]
        report(name, runs, len(given))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.parallel, given.seconds, given.faults)
    else:
        bounds = given.samples, given.parallel, given.seconds
        compare(*bounds, given.repeats, given.faults)


if __name__ == "__main__":
    main()
