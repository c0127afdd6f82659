"""What `retrain view` costs: first paint at 20,000 episodes, memory, an episode of 30,000 tokens.

A run of 20,000 episodes is written by the code that writes real ones, with one of 30,000 tokens
among them. A server of its own process shows it, and a headless Chromium (Debian's `chromium`)
opens it: once while the server has only begun to read the run, and once when it has read it. Then
the list is scrolled through from end to end and episodes are opened all over it, while the server's
resident memory is watched.

    python benchmarks/viewer.py [--episodes 20000] [--tokens 500]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "view")]

from headless import Page, chromium, open_page  # noqa: E402
from viewed_runs import call, episode, turn, write_iteration  # noqa: E402

GROUP, GROUPS = 8, 16
LONG = 30_000
READ = "fetch('/api/run/run').then(a => a.json()).then(run => run.read === run.total)"
ROWS = "document.querySelectorAll('#list .sample').length"


def write(folder: Path, episodes: int, tokens: int) -> None:
    """A run of GROUPS groups of GROUP episodes an iteration; all iterations hold the same ones."""
    words = "so then we add the digits, carry one and go on\n"
    thought = (words * (tokens // len(words) + 1))[: tokens - 60]
    groups = [
        [
            episode(
                call("12+30", "42"),
                turn(f"{thought} {number}.{slot}"),
                slot=slot,
                group=number,
                task=f"sum-{number}",
                reward=float((slot + number) % 3 == 0),
                size=GROUP,
            )
            for slot in range(GROUP)
        ]
        for number in range(GROUPS)
    ]
    write_iteration(folder, 1, *groups)
    for iteration in range(2, episodes // (GROUP * GROUPS) + 1):
        shutil.copy(folder / "samples" / "1.jsonl", folder / "samples" / f"{iteration}.jsonl")
    write_iteration(folder, 0, [episode(turn(words * (LONG // len(words))), group=1)], split="long")


def resident(pid: int) -> float:
    """MiB of memory that a process has."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def busy(page: Page) -> float:
    """Seconds that the page's main thread has worked since it was opened."""
    found = (await page.send("Performance.getMetrics"))["metrics"]
    return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[str, int]]:
    """The URL and the process of a server."""
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "retrain", "view", str(folder), "--json", "--no-browser"),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert server.stdout is not None
        yield json.loads(await server.stdout.readline())["url"], server.pid
    finally:
        server.terminate()
        await server.wait()


async def paint(page: Page, url: str, pid: int, what: str) -> None:
    """Time a visit, from the navigation to the first content and to the first rows."""
    server = cpu(pid)
    await page.open(url)
    rows = await page.until(f"{ROWS} ? performance.now() : 0")
    server = cpu(pid) - server
    first = await page.until("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    print(f"  {what:25s} {first:6.0f} ms to the first content, {rows:.0f} ms to the rows")
    worked = await busy(page)
    print(f"  {'':25s} CPU: server {server * 1e3:.0f} ms, the page {worked * 1e3:.0f} ms")


async def scroll(page: Page, pid: int, steps: int = 200) -> list[float]:
    """MiB of the server while the list goes by."""
    sizes = []
    for step in range(steps):
        await page.run(
            f"(e => {{ e.scrollTop = e.scrollHeight * {step / steps} }})"
            "(document.getElementById('list'))"
        )
        await page.until(ROWS)
        if step % 20 == 19:
            sizes.append(resident(pid))
    return sizes


async def visit(page: Page, url: str, pid: int, iterations: int) -> list[float]:
    """MiB of the server while episodes all over the run are opened."""
    sizes = []
    for step in range(100):
        id = f"{1 + step * (iterations - 1) // 99}.{1 + step % (GROUP * GROUPS)}"
        await page.run(f"location.hash = 'sample={id}'")
        await page.until(f"document.querySelector('.facts-row')?.textContent.includes('{id} ')")
        if step % 20 == 19:
            sizes.append(resident(pid))
    return sizes


async def open_long(page: Page, url: str) -> tuple[float, float]:
    """Milliseconds until the tokens of a long episode stand there, and until it has new colours."""
    await page.open(f"{url}#sample=long-0.1")
    shown = await page.until("document.querySelector('.t') ? performance.now() : 0")
    script = "(() => { const t = performance.now(); document.querySelector('[data-value=logprob]')"
    switched = await page.run(
        f"{script}.click(); document.body.offsetHeight; return performance.now() - t }})()"
    )
    return shown, switched


async def measure(episodes: int, tokens: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        write(path, episodes, tokens)
        size = sum(file.stat().st_size for file in path.rglob("*.jsonl")) / 2**20
        print(f"{episodes} episodes of about {tokens} tokens: {size:.0f} MiB of samples")
        async with served(path) as (url, pid), open_page() as page:
            await page.send("Performance.enable")
            await paint(page, url, pid, "first visit, run unread")
            began = time.perf_counter()
            await page.until(READ)
            waited = time.perf_counter() - began
            print(
                f"  run read                  {waited:6.1f} s later (server's CPU {cpu(pid):.1f} s)"
            )
            await paint(page, url, pid, "second visit")
            print(f"  server                    {resident(pid):6.0f} MiB")
            show("while scrolling", await scroll(page, pid))
            show(
                "while opening episodes", await visit(page, url, pid, episodes // (GROUP * GROUPS))
            )
            shown, switched = await open_long(page, url)
            print(f"  {LONG} tokens shown after {shown:.0f} ms, coloured anew in {switched:.0f} ms")


def show(what: str, sizes: list[float]) -> None:
    print(f"  {what:25s} {', '.join(f'{size:.0f}' for size in sizes)} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the viewer.")
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--tokens", type=int, default=500, help="tokens of an episode")
    given = parser.parse_args()
    if chromium() is None:
        sys.exit("needs Debian's chromium: apt-get install chromium")
    asyncio.run(measure(given.episodes, given.tokens))


if __name__ == "__main__":
    main()
