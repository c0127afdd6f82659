"""A headless Chromium, driven over its DevTools protocol: only what these tests need of it."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

PATIENCE = 90.0
"""Seconds that something may take on a machine under load."""

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


_PLACE = """(() => {
  const box = document.querySelector(%s)?.getClientRects()[0];
  return box ? {x: box.x + box.width / 2, y: box.y + box.height / 2} : null;
})()"""


def chromium() -> str | None:
    """The browser of this machine; None where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


class Page:
    """One page.

    Attributes:
        complaints: What the page wrote to its console as an error, and what it threw.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())

    async def send(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(PATIENCE):
            return await answer

    async def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = await self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until an expression is true; gives its value."""
        last: Any = None
        try:
            async with asyncio.timeout(PATIENCE):
                while (last := await self.run(script)) in (None, False, 0, ""):
                    await asyncio.sleep(0.03)
        except TimeoutError:
            raise AssertionError(
                f"never true: {script} (last {last!r}); {self.complaints}"
            ) from None
        return last

    async def open(self, url: str, *, width: int = 1440, height: int = 900) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        await self.send("Page.navigate", url="about:blank")
        await self.send("Page.navigate", url=url)

    async def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        await self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def told_of(self, selector: str, words: str) -> str:
        """Put the pointer on an element until the page's tip has some words; gives its text."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await self.send("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
                await self.point_at(selector)
                told: str = await self.run("document.getElementById('tip').innerText")
                if words in told:
                    return told
                await asyncio.sleep(0.05)

    async def point_at(self, selector: str) -> None:
        """Put the pointer on an element."""
        await self._mouse(selector, "mouseMoved")

    async def click(self, selector: str, until: str) -> None:
        """Click on an element, again where the page moved meanwhile, until something is true."""
        async with asyncio.timeout(PATIENCE):
            while not await self.run(until):
                await self._mouse(selector, "mousePressed", button="left", clickCount=1)
                await self._mouse(selector, "mouseReleased", button="left", clickCount=1)
                await asyncio.sleep(0.3)

    async def picture(self, path: Path) -> None:
        answer = await self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _mouse(self, selector: str, kind: str, **more: Any) -> None:
        place = await self.until(_PLACE % json.dumps(selector))
        await self.send("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], **more)

    async def _read(self) -> None:
        async for message in self._socket:
            event = json.loads(message.data)
            if "id" in event:
                answer = self._waiting.pop(event["id"])
                if not answer.done():
                    answer.set_result(event.get("result", event))
            elif event["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(event["params"]["exceptionDetails"])[:2000])
            elif (
                event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"
            ):
                self.complaints.append(str(event["params"]["entry"])[:2000])


@asynccontextmanager
async def open_page() -> AsyncIterator[Page]:
    """A page of a new browser with a profile of its own."""
    browser = chromium()
    assert browser is not None
    profile = tempfile.mkdtemp(prefix="retrain-chromium-")
    process = await asyncio.create_subprocess_exec(
        browser,
        *_ARGUMENTS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port = await _port(Path(profile) / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                target = next(t for t in await answer.json() if t["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await page.send(f"{domain}.enable")
                yield page
                await page.close()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the browser and all its processes
        await process.wait()
        shutil.rmtree(profile, ignore_errors=True)


async def _port(path: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(PATIENCE):
        while not (path.exists() and path.read_text().strip()):
            assert process.returncode is None, "the browser ended"
            await asyncio.sleep(0.05)
    return int(path.read_text().split()[0])
